// Keeps the map current: one thread that asks one node at a time, every interval and when told to.
// request() and current() from any thread; the publish callback runs on the refresher's thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "penstock/cluster/topology.h"
#include "penstock/stats/counter.h"

namespace penstock::cluster {

class TopologyRefresher {
 public:
  struct Options {
    std::vector<Endpoint> seeds;
    std::string username, password;
    std::chrono::milliseconds interval{15000};
    std::chrono::milliseconds timeout{1000};  // to connect, and then for all answers of a node
    std::string self;  // the proxy's own node id: a seed that leads back here is no cluster
  };
  struct Stats {
    stats::Counter refreshes, failures, changes;
  };
  // A connected blocking socket to a node, or -1; the refresher closes it.
  using Dial = std::function<int(const Endpoint&, std::chrono::milliseconds)>;
  using Publish = std::function<void(std::shared_ptr<const Topology>)>;

  TopologyRefresher(Options options, Dial dial, Publish publish);
  TopologyRefresher(const TopologyRefresher&) = delete;
  TopologyRefresher& operator=(const TopologyRefresher&) = delete;
  ~TopologyRefresher();
  // Ends its thread: nothing is published any more. Everything else may still be called.
  void stop();

  // Asks for a refresh soon. Any number of requests make one refresh.
  void request();

  std::shared_ptr<const Topology> current() const;
  const Stats& stats() const { return stats_; }
  // Why the last refresh failed; empty when it did not.
  std::string last_error() const;

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  bool wait_for_next();
  void refresh();
  bool is_stopping() const;
  std::vector<Endpoint> candidates();
  std::optional<View> ask(const Endpoint& node);
  std::optional<View> understand(const std::vector<std::string>& answers,
                                 const Endpoint& node) const;
  std::string_view problem_of(const View& view, const View& nodes) const;
  void take(std::shared_ptr<const Topology> after);

  const Options options_;
  const Dial dial_;
  const Publish publish_;
  Stats stats_;
  std::mt19937 random_{std::random_device{}()};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Topology> current_ = std::make_shared<Topology>();
  std::string last_error_;
  bool requested_ = true;
  bool stopping_ = false;
  unsigned failures_in_a_row_ = 0;
  std::thread thread_;
};

}  // namespace penstock::cluster
