// What a worker's sessions need from outside: shared parts, owned by the worker and the server.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "penstock/admin/local_commands.h"
#include "penstock/cache/invalidation_tracker.h"
#include "penstock/cache/reply_cache.h"
#include "penstock/cluster/router.h"
#include "penstock/command/command_table.h"
#include "penstock/config/config.h"
#include "penstock/net/block.h"
#include "penstock/net/mailbox.h"
#include "penstock/net/reactor.h"
#include "penstock/net/resolver.h"
#include "penstock/sharding/exchange.h"
#include "penstock/stats/worker_stats.h"

namespace penstock::session {

struct SessionServices {
  std::uint16_t worker;
  std::uint32_t random_seed;
  net::Reactor& reactor;
  net::BlockPool& blocks;
  net::Resolver& resolver;
  net::Mailbox& mailbox;
  const config::Config& config;
  const command::CommandTable& commands;
  cluster::Router& router;
  sharding::Exchange& exchange;
  stats::WorkerStats& stats;
  cache::ReplyCache& cache;
  const cache::TrackingOptions& tracking;
  // Buffers of the whole process, and how many bytes they may have.
  std::function<std::size_t()> memory_used;
  std::size_t memory_limit;
  admin::LocalCommands& local;
  // The map seems to be out of date.
  std::function<void()> request_refresh;
  // Why there is no map, in a few words.
  std::function<std::string()> cluster_trouble;
  // Runs a job on all workers; the text comes back on this worker.
  std::function<void(admin::GatherJob, std::function<void(std::string)>)> gather;
};

}  // namespace penstock::session
