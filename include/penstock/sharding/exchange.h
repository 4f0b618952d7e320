// What the workers of a process share for shared pipes: a way from each to each other, a flag that
// says who sleeps, and the mode that all of them follow. Made before the workers, outlives them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/net/reactor.h"

namespace penstock::sharding {

class BatchRing;

// Which pipes sessions use. mixed: unpipelined ones the shared pipes, pipelining ones their own.
enum class Mode : std::uint8_t { worker, mixed, shared };

// Whether a worker has to be woken, and how. The owner sets `asleep`; who wakes it clears it.
struct alignas(64) Doorbell {
  std::atomic<bool> asleep{false};
  std::atomic<net::Reactor*> reactor{nullptr};
};

class Exchange {
 public:
  explicit Exchange(std::size_t workers);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  std::size_t workers() const { return bells_.size(); }
  BatchRing& way(std::size_t from, std::size_t to) { return *ways_[from * workers() + to]; }
  Doorbell& bell(std::size_t worker) { return *bells_[worker]; }

  Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  void set_mode(Mode mode) { mode_.store(mode, std::memory_order_relaxed); }

 private:
  std::vector<std::unique_ptr<BatchRing>> ways_;
  std::vector<std::unique_ptr<Doorbell>> bells_;
  std::atomic<Mode> mode_{Mode::worker};
};

}  // namespace penstock::sharding
