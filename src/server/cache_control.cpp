// Running the reply cache, and telling of it.
// SPDX-License-Identifier: Apache-2.0
#include "server/cache_control.h"

#include <utility>

#include "penstock/log/log.h"

namespace penstock::server {

using cache::Worth;

CacheControl::CacheControl(cache::ReplyCache& cache, const config::Config& config,
                           const std::vector<const stats::WorkerStats*>& workers)
    : cache_(cache), workers_(workers), may_rest_(config.reply_cache.may_rest),
      costs_(config.reply_cache.tracking == config::Tracking::optin ? Worth::kOptin
                                                                     : Worth::kBroadcast),
      worth_(costs_) {
  if (config.reply_cache.enabled) enable(true);
}

void CacheControl::enable(bool on) {
  const std::lock_guard lock(mutex_);
  if (on == enabled_) return;
  enabled_ = on;
  worth_ = Worth(costs_);
  seen_ = totals();
  looked_at_ = net::monotonic_now();
  spdlog::info("the reply cache is {}", on ? "on" : "off");
  on ? cache_.switch_on() : cache_.switch_off();
}

void CacheControl::tick() {
  const std::lock_guard lock(mutex_);
  if (!enabled_ || !may_rest_) return;
  const net::Nanos now = net::monotonic_now();
  const Worth::Sample all = totals();
  const Worth::Sample sample{.seconds = static_cast<double>(now - looked_at_) / 1e9,
                             .hits = all.hits - seen_.hits,
                             .misses = all.misses - seen_.misses,
                             .fills = all.fills - seen_.fills,
                             .writes_kept = all.writes_kept - seen_.writes_kept,
                             .writes = all.writes - seen_.writes,
                             .announced = all.announced - seen_.announced};
  seen_ = all;
  looked_at_ = now;
  const bool works = worth_.tick(sample);
  if (works == cache_.is_on()) return;
  spdlog::info("the reply cache {}: it saves {:.2f} commands of a node for each that it costs",
               works ? "tries again" : "rests", worth_.balance());
  works ? cache_.switch_on() : cache_.switch_off();
}

Worth::Sample CacheControl::totals() const {
  Worth::Sample all;
  const auto add = [](double& sum, const stats::Counter& counter) {
    sum += static_cast<double>(counter.get());
  };
  for (const stats::WorkerStats* worker : workers_) {
    add(all.hits, worker->cache_hits);
    add(all.misses, worker->cache_misses);
    add(all.fills, worker->cache_fills);
    add(all.fills, worker->cache_void);
    add(all.fills, worker->cache_absent);
    add(all.writes_kept, worker->cache_writes_kept);
    add(all.writes, worker->cache_writes);
    add(all.announced, worker->cache_keys_announced);
  }
  return all;
}

admin::CacheReport CacheControl::report() const {
  const std::lock_guard lock(mutex_);
  const cache::ReplyCache::Totals totals = cache_.totals();
  admin::CacheReport report{.enabled = enabled_,
                            .max_bytes_per_worker = cache_.limit() / workers_.size(),
                            .entries = totals.entries,
                            .bytes = totals.bytes,
                            .evictions = totals.evictions,
                            .expired = totals.expired,
                            .balance = worth_.balance()};
  if (!enabled_) {
    report.state = "off";
  } else if (!cache_.is_on()) {
    report.state = "resting";
  } else {
    report.state = cache_.keeps() ? "working" : "starting";
  }
  return report;
}

}  // namespace penstock::server
