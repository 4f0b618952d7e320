// Merging and reading latency histograms.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/stats/histogram.h"

namespace penstock::stats {

std::uint64_t Histogram::upper_bound(std::size_t bucket) {
  if (bucket < 32) return bucket;
  const std::size_t shift = bucket / 16 - 1;
  return ((bucket % 16 + 17) << shift) - 1;
}

void HistogramTotals::add(const Histogram& histogram) {
  for (std::size_t i = 0; i < kHistogramBuckets; ++i) {
    const std::uint64_t n = histogram.count_at(i);
    counts_[i] += n;
    count_ += n;
  }
}

void HistogramTotals::subtract(const HistogramTotals& earlier) {
  for (std::size_t i = 0; i < kHistogramBuckets; ++i) counts_[i] -= earlier.counts_[i];
  count_ -= earlier.count_;
}

std::uint64_t HistogramTotals::percentile(double fraction) const {
  const double wanted = fraction * static_cast<double>(count_);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kHistogramBuckets; ++i) {
    seen += counts_[i];
    if (seen > 0 && static_cast<double>(seen) >= wanted) return Histogram::upper_bound(i);
  }
  return 0;
}

}  // namespace penstock::stats
