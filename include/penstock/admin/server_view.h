// Read-only views of the process and of a worker, for the commands that report on them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/admin/client_state.h"
#include "penstock/cluster/topology.h"
#include "penstock/cluster/topology_refresher.h"
#include "penstock/config/config.h"
#include "penstock/net/reactor.h"
#include "penstock/stats/worker_stats.h"

namespace penstock::admin {

// A node as one worker sees it; the pipes of all protocols and lanes together.
struct NodeReport {
  std::string address;
  std::uint64_t pipes = 0, connected = 0, in_flight = 0, queued_bytes = 0;
  std::uint64_t requests = 0, replies = 0, lost = 0, timeouts = 0, connects = 0, failures = 0;
  std::string trouble;  // why there is no connection; empty when there is one

  // Adds another one's numbers, and takes over its trouble if it has any.
  void add(const NodeReport& other);
};

// What one worker can tell on its own thread.
class WorkerView {
 public:
  virtual ~WorkerView() = default;

  virtual void for_each_client(const std::function<void(const ClientFacts&)>& visit) = 0;
  // Closes a client as soon as its replies are sent; false when there is no such client.
  virtual bool kill_client(std::uint64_t id) = 0;
  virtual std::vector<NodeReport> nodes() = 0;
};

// Which pipes are used, and why.
struct ShardingReport {
  config::Sharding wanted = config::Sharding::automatic;
  std::string state;            // "worker", "mixed" or "shared"
  bool trying = false;          // true while the state is being tried, or compared with
  std::uint64_t probes = 0, keeps = 0, reverts = 0;
  std::optional<double> next_probe_seconds;  // of busy time; none: there will be none
  std::string last_verdict;     // fields as "name=value", empty: none yet
};

// The reply cache as it is now.
struct CacheReport {
  bool enabled = false;
  std::string state{};  // "off", "starting", "working", "resting"
  std::uint64_t max_bytes_per_worker = 0;
  std::uint64_t entries = 0, bytes = 0, evictions = 0, expired = 0;
  double balance = 0;  // commands of nodes saved for each that it costs; 0: not known yet
};

// What the whole process can tell on any thread.
struct ServerView {
  const config::Config* config = nullptr;
  std::vector<const stats::WorkerStats*> workers;
  std::vector<const net::ReactorStats*> reactors;
  const cluster::TopologyRefresher::Stats* refresher = nullptr;
  std::function<std::shared_ptr<const cluster::Topology>()> topology;
  std::function<std::uint64_t()> ops_per_second;
  std::function<ShardingReport()> sharding;
  // CONFIG SET backend.sharding.
  std::function<void(config::Sharding)> set_sharding;
  std::function<CacheReport()> cache;
  // CONFIG SET reply_cache.enabled and reply_cache.max_bytes_per_worker, and CACHE FLUSH.
  std::function<void(bool)> enable_cache;
  std::function<void(std::uint64_t)> resize_cache;
  std::function<void()> flush_cache;
  std::string engine;           // "io_uring" or "epoll"
  std::string engine_fallback;  // why it is not io_uring, when that was wanted
  std::string run_id;           // 40 hex digits, new at every start
  std::uint16_t port = 0;       // of the first TCP listener
  std::int64_t started_at_ms = 0;  // monotonic
};

}  // namespace penstock::admin
