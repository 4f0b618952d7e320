// Running the experiment, and telling of it.
// SPDX-License-Identifier: Apache-2.0
#include "server/sharding_control.h"

#include <utility>

#include "penstock/log/log.h"

namespace penstock::server {
namespace {

using sharding::Mode;
using sharding::Verdict;

std::string_view name_of(Mode mode) {
  switch (mode) {
    case Mode::worker: return "worker";
    case Mode::mixed: return "mixed";
    case Mode::shared: return "shared";
  }
  return "";
}

void log(const Verdict& verdict) {
  spdlog::info("sharding: {} {} instead of {}: {} ({:.0f} against {:.0f} commands/s, {:.2f} "
               "against {:.2f} us of CPU per command, p99 {:.0f} against {:.0f} us)",
               verdict.kept ? "keeping" : "not keeping", name_of(verdict.to), name_of(verdict.from),
               verdict.reason, verdict.rate_trial, verdict.rate_before, verdict.cpu_trial_us,
               verdict.cpu_before_us, verdict.p99_trial_us, verdict.p99_before_us);
}

std::string describe(const Verdict& verdict) {
  return fmt::format("from={},to={},kept={},rate_before={:.0f},rate_trial={:.0f},"
                     "cpu_us_before={:.3f},cpu_us_trial={:.3f},p99_us_before={:.0f},"
                     "p99_us_trial={:.0f},reason={}",
                     name_of(verdict.from), name_of(verdict.to), verdict.kept ? 1 : 0,
                     verdict.rate_before, verdict.rate_trial, verdict.cpu_before_us,
                     verdict.cpu_trial_us, verdict.p99_before_us, verdict.p99_trial_us,
                     verdict.reason);
}

}  // namespace

ShardingControl::ShardingControl(sharding::Exchange& exchange, config::Sharding wanted,
                                 const std::vector<const stats::WorkerStats*>& workers,
                                 AskServers ask_servers)
    : exchange_(exchange), ask_servers_(std::move(ask_servers)), sampler_(workers),
      sampled_at_(net::monotonic_now()), wanted_(wanted) {
  apply();
}

void ShardingControl::apply() {
  if (exchange_.workers() == 1) return;  // its own pipes are the process's
  switch (wanted_) {
    case config::Sharding::worker: return exchange_.set_mode(Mode::worker);
    case config::Sharding::shared: return exchange_.set_mode(Mode::shared);
    case config::Sharding::automatic: return exchange_.set_mode(experiment_.mode());
  }
}

void ShardingControl::set(config::Sharding wanted) {
  const std::lock_guard lock(mutex_);
  if (wanted == wanted_) return;
  wanted_ = wanted;
  experiment_ = {};
  apply();
}

void ShardingControl::tick() {
  const net::Nanos elapsed = net::monotonic_now() - sampled_at_;
  if (exchange_.workers() == 1 || elapsed < sharding::Experiment::kPeriodMs * 1'000'000LL) return;
  std::unique_lock lock(mutex_);
  const bool with_servers =
      wanted_ == config::Sharding::automatic && experiment_.wants_server_cpu();
  lock.unlock();  // servers may take their time
  const sharding::Sample sample = take_sample(with_servers);
  lock.lock();
  if (wanted_ != config::Sharding::automatic) return;
  const bool was_trying = experiment_.is_trying();
  experiment_.tick(sample);
  apply();
  if (was_trying && !experiment_.is_trying()) log(*experiment_.last_verdict());
}

sharding::Sample ShardingControl::take_sample(bool with_servers) {
  const auto servers = with_servers ? ask_servers_() : std::nullopt;
  const net::Nanos now = net::monotonic_now();  // asking may have taken a while
  const net::Nanos elapsed = now - std::exchange(sampled_at_, now);
  return sampler_.take(static_cast<double>(elapsed) * 1e-9, servers);
}

admin::ShardingReport ShardingControl::report() const {
  const std::lock_guard lock(mutex_);
  const auto& verdict = experiment_.last_verdict();
  const bool automatic = wanted_ == config::Sharding::automatic;
  return {.wanted = wanted_,
          .state = std::string(name_of(exchange_.mode())),
          .trying = automatic && experiment_.is_trying(),
          .probes = experiment_.probes(),
          .keeps = experiment_.keeps(),
          .reverts = experiment_.reverts(),
          .next_probe_seconds = automatic && exchange_.workers() > 1
                                    ? std::optional(experiment_.next_probe_in())
                                    : std::nullopt,
          .last_verdict = verdict ? describe(*verdict) : std::string()};
}

}  // namespace penstock::server
