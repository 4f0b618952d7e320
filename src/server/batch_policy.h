// Decides how long a busy worker's turn may wait for more events before it handles those it has.
// Larger batches mean fewer wake-ups and fewer, larger sends for everybody: proxy, nodes, clients.
// Pure: samples in, one number out; no clock, no threads.
//
// It waits only when at least kClientsMin clients really have requests under way at the same time
// and the worker is busy, and then no longer than a sixteenth of the time in which each of them
// comes round once. A single client, or a pool used by one thread, never waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/net/reactor.h"

namespace penstock::server {

// What a worker saw in one period.
struct LoadSample {
  net::Nanos elapsed = 0;
  net::Nanos cpu = 0;                 // of the worker's thread
  std::size_t active_clients = 0;     // that sent something
  std::size_t peak_outstanding = 0;   // most requests at nodes at once
  std::uint64_t receives = 0;         // from clients; a pipeline is one or a few
};

class BatchPolicy {
 public:
  // How often a sample is due.
  static constexpr net::Nanos kPeriod = 50'000'000;

  explicit BatchPolicy(net::Nanos longest_wait) : longest_(longest_wait) {}

  void add(const LoadSample& sample);
  // 0: handle events as they come.
  net::Nanos wait() const { return wait_; }
  // How long the first replies of a pipeline may wait for the rest: at most a quarter of a round.
  net::Nanos hold() const { return wait_ * 4; }

 private:
  // Fewer clients than this fill no batch worth waiting for.
  static constexpr std::size_t kClientsMin = 16;
  // A wait is at most this part of a client's round.
  static constexpr net::Nanos kPartOfRound = 16;
  static constexpr net::Nanos kShortest = 15'000;  // a timer costs a few microseconds itself
  // Percent of a CPU from which a worker counts as busy, and below which no more.
  static constexpr net::Nanos kBusyFrom = 20, kBusyUntil = 8;

  net::Nanos longest_;
  net::Nanos wait_ = 0;
  bool busy_ = false;
};

inline void BatchPolicy::add(const LoadSample& sample) {
  const net::Nanos percent = sample.cpu * 100 / (sample.elapsed > 0 ? sample.elapsed : 1);
  busy_ = percent >= (busy_ ? kBusyUntil : kBusyFrom);
  const std::size_t clients = sample.active_clients < sample.peak_outstanding
                                  ? sample.active_clients
                                  : sample.peak_outstanding;
  wait_ = 0;
  if (!busy_ || clients < kClientsMin || sample.receives == 0) return;
  const net::Nanos round = sample.elapsed * static_cast<net::Nanos>(clients) /
                           static_cast<net::Nanos>(sample.receives);
  const net::Nanos wait = round / kPartOfRound;
  if (wait >= kShortest) wait_ = wait < longest_ ? wait : longest_;
}

}  // namespace penstock::server
