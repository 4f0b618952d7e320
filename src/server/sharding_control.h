// Decides which pipes the workers use: as configured, or, under "auto", as the experiment finds.
// tick() on one thread; everything else from any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "penstock/admin/server_view.h"
#include "penstock/net/reactor.h"
#include "penstock/sharding/exchange.h"
#include "penstock/sharding/experiment.h"
#include "penstock/sharding/load_sampler.h"

namespace penstock::server {

class ShardingControl {
 public:
  using AskServers = std::function<std::optional<sharding::ServerCpu>()>;

  ShardingControl(sharding::Exchange& exchange, config::Sharding wanted,
                  const std::vector<const stats::WorkerStats*>& workers, AskServers ask_servers);

  // Every Experiment::kPeriodMs, or a little more.
  void tick();

  // Takes effect at once; the experiment starts anew.
  void set(config::Sharding wanted);
  admin::ShardingReport report() const;

 private:
  sharding::Sample take_sample(bool with_servers);
  void apply();

  sharding::Exchange& exchange_;
  const AskServers ask_servers_;
  sharding::LoadSampler sampler_;
  net::Nanos sampled_at_;

  mutable std::mutex mutex_;
  config::Sharding wanted_;
  sharding::Experiment experiment_;
};

}  // namespace penstock::server
