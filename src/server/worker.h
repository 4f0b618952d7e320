// One worker: a pinned thread with its own event loop, sessions and pipes. Nothing of it is shared
// but counters, and a mailbox that other threads post to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "penstock/admin/local_commands.h"
#include "penstock/cluster/topology_refresher.h"
#include "penstock/command/command_table.h"
#include "penstock/config/config.h"
#include "penstock/net/mailbox.h"
#include "penstock/net/reactor.h"
#include "penstock/net/resolver.h"
#include "penstock/session/session_table.h"
#include "penstock/stats/worker_stats.h"
#include "server/batch_policy.h"
#include "server/listener.h"

namespace penstock::server {

// What all workers share, owned by the server and alive longer than they are.
struct Shared {
  const config::Config& config;
  const command::CommandTable& commands;
  admin::ServerView& view;
  net::Resolver& resolver;
  sharding::Exchange& exchange;
  cache::ReplyCache& cache;
  const cache::TrackingOptions& tracking;
  std::function<void()> request_refresh;
  std::function<std::string()> cluster_trouble;
  std::function<void(admin::GatherJob, std::size_t asker, std::function<void(std::string)>)> gather;
  std::function<std::size_t()> memory_used;
  std::size_t memory_limit;
};

class Worker {
 public:
  // `cpu`: the one to bind to, or -1.
  Worker(const Shared& shared, std::uint16_t index, int cpu);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Starts the thread with a reactor of this kind; true once it stands. False: it could not be made
  // (the reason in `error`), and the thread is gone.
  bool start(net::Engine engine, std::string& error);
  // Stops the thread; connections are closed first.
  void stop();

  // Hands a new connection to this worker; called on worker `from`.
  void take_client(Worker& from, int fd, std::uint64_t id);
  // Clients handed to this worker and not closed; any thread.
  std::uint64_t load() const {
    return assigned_.load(std::memory_order_relaxed) - stats_->clients_closed.get();
  }
  // A connection that this worker accepted was turned away; on its own thread.
  void count_rejected() { stats_->clients_rejected.add(); }

  // From any thread.
  void post(net::Mailbox::Task task) { mailbox_.post(std::move(task)); }
  const stats::WorkerStats& stats() const { return *stats_; }
  const net::ReactorStats& reactor_stats() const { return reactor_->stats(); }

  // On the worker's own thread, through post().
  session::SessionTable& sessions() { return *sessions_; }
  net::Reactor& reactor() { return *reactor_; }

 private:
  void run(net::Engine engine, std::promise<std::string> made);
  void bind_to_cpu() const;
  void serve();
  net::Wait next_wait(net::Nanos now);
  void sample_load(net::Nanos now);
  session::SessionServices services();

  const Shared& shared_;
  const std::uint16_t index_;
  const int cpu_;
  std::unique_ptr<stats::WorkerStats> stats_;
  net::Mailbox mailbox_;
  net::BlockPool blocks_;
  std::unique_ptr<cluster::Router> router_;
  std::unique_ptr<admin::LocalCommands> local_;
  std::unique_ptr<net::Reactor> reactor_;
  std::unique_ptr<session::SessionTable> sessions_;
  std::atomic<std::uint64_t> assigned_{0};
  BatchPolicy batch_policy_;
  net::Nanos sampled_at_ = 0;       // monotonic
  net::Nanos cpu_at_sample_ = 0;    // of this thread
  std::size_t peak_outstanding_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace penstock::server
