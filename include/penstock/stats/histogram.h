// A latency histogram in microseconds: 16 linear steps in each power of two, so 6 % resolution.
// One writing thread, any number of reading ones; readers merge several into a HistogramTotals.
// Equal values that follow each other, as all of one batch are, are counted first and stored once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "penstock/stats/counter.h"

namespace penstock::stats {

inline constexpr std::size_t kHistogramBuckets = 16 + 28 * 16;  // 0 us .. 2^32 us

class Histogram {
 public:
  void record(std::uint32_t us) {
    if (us != last_) {
      flush();
      last_ = us;
    }
    ++run_;
  }
  // Makes what was recorded visible; at the end of a batch.
  void flush() {
    if (run_ > 0) counts_[bucket_of(last_)].add(run_);
    run_ = 0;
  }
  std::uint64_t count_at(std::size_t bucket) const { return counts_[bucket].get(); }

  static std::size_t bucket_of(std::uint32_t us) {
    if (us < 16) return us;
    const int shift = 27 - std::countl_zero(us);
    return static_cast<std::size_t>(shift) * 16 + (us >> shift);
  }
  // The largest value that falls into the bucket.
  static std::uint64_t upper_bound(std::size_t bucket);

 private:
  std::uint32_t last_ = 0;
  std::uint32_t run_ = 0;
  std::array<Counter, kHistogramBuckets> counts_{};
};

class HistogramTotals {
 public:
  void add(const Histogram& histogram);
  // Takes away what was in it at an earlier time.
  void subtract(const HistogramTotals& earlier);
  std::uint64_t count() const { return count_; }
  // The value that `fraction` (0..1) of the recorded ones do not exceed, in microseconds.
  std::uint64_t percentile(double fraction) const;

 private:
  std::array<std::uint64_t, kHistogramBuckets> counts_{};
  std::uint64_t count_ = 0;
};

}  // namespace penstock::stats
