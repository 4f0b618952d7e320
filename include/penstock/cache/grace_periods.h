// When memory that readers may still look at can be freed. Readers take no locks: each worker says
// at the end of every turn that it holds on to nothing. What was unlinked before all of them said
// so is nobody's any more (quiescent states; McKenney and Slingwine, "Read-copy update", 1998).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock::cache {

class GracePeriods {
 public:
  explicit GracePeriods(std::size_t workers)
      : workers_(workers), seen_(std::make_unique<Seen[]>(workers)) {}

  // A worker begins to read, holds on to nothing just now, or has ended.
  void begin(std::size_t worker) { pass(worker); }
  void pass(std::size_t worker) {
    const std::uint64_t now = now_.fetch_add(1, std::memory_order_seq_cst) + 1;
    seen_[worker].at.store(now, std::memory_order_release);
  }
  void end(std::size_t worker) {
    seen_[worker].at.store(UINT64_MAX, std::memory_order_release);
  }

  // After unlinking, by sequentially consistent stores: a stamp of what was unlinked.
  std::uint64_t stamp() const { return now_.load(std::memory_order_seq_cst); }
  // What was unlinked with a stamp below this can be freed.
  std::uint64_t over() const {
    std::uint64_t oldest = UINT64_MAX;
    for (std::size_t i = 0; i < workers_; ++i) {
      oldest = std::min(oldest, seen_[i].at.load(std::memory_order_acquire));
    }
    return oldest;
  }

 private:
  struct alignas(64) Seen {
    std::atomic<std::uint64_t> at{UINT64_MAX};
  };

  const std::size_t workers_;
  std::unique_ptr<Seen[]> seen_;
  std::atomic<std::uint64_t> now_{0};
};

}  // namespace penstock::cache
