// Turns the reply cache on and off: as configured, and off for a while where it is not worth its
// cost. tick() on one thread; everything else from any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <vector>

#include "penstock/admin/server_view.h"
#include "penstock/cache/reply_cache.h"
#include "penstock/cache/worth.h"
#include "penstock/config/config.h"
#include "penstock/net/reactor.h"
#include "penstock/stats/worker_stats.h"

namespace penstock::server {

class CacheControl {
 public:
  CacheControl(cache::ReplyCache& cache, const config::Config& config,
               const std::vector<const stats::WorkerStats*>& workers);

  // About ten times a second.
  void tick();

  void enable(bool on);
  void resize(std::uint64_t bytes_per_worker) { cache_.resize(bytes_per_worker * workers_.size()); }
  void flush() { cache_.clear(); }
  admin::CacheReport report() const;

 private:
  cache::Worth::Sample totals() const;

  cache::ReplyCache& cache_;
  const std::vector<const stats::WorkerStats*>& workers_;
  const bool may_rest_;
  const cache::Worth::Costs costs_;

  mutable std::mutex mutex_;
  bool enabled_ = false;
  cache::Worth worth_;
  cache::Worth::Sample seen_;
  net::Nanos looked_at_ = 0;
};

}  // namespace penstock::server
