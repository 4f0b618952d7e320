// Latency histograms.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/stats/histogram.h"

#include "catch.h"
#include "penstock/stats/worker_stats.h"

namespace penstock::stats {

TEST_CASE("every value falls into a bucket whose bound is at most 7 % above it") {
  for (std::uint64_t us = 0; us <= 0xffffffff; us = us < 100 ? us + 1 : us + us / 50) {
    const std::size_t bucket = Histogram::bucket_of(static_cast<std::uint32_t>(us));
    REQUIRE(bucket < kHistogramBuckets);
    const std::uint64_t bound = Histogram::upper_bound(bucket);
    REQUIRE(bound >= us);
    REQUIRE(bound <= us + us / 15);
  }
  CHECK(Histogram::bucket_of(0xffffffff) == kHistogramBuckets - 1);
}

TEST_CASE("percentiles of known values") {
  auto histogram = std::make_unique<Histogram>();
  for (std::uint32_t us = 1; us <= 1000; ++us) histogram->record(us);
  histogram->flush();
  HistogramTotals totals;
  totals.add(*histogram);
  CHECK(totals.count() == 1000);
  CHECK(totals.percentile(0.5) >= 500);
  CHECK(totals.percentile(0.5) <= 540);
  CHECK(totals.percentile(0.999) >= 999);
  CHECK(HistogramTotals().percentile(0.5) == 0);
}

TEST_CASE("error replies are counted by their code") {
  auto stats = std::make_unique<WorkerStats>();
  stats->count_error("-ERR no\r\n");
  stats->count_error("-WRONGTYPE x\r\n");
  stats->count_error("-NEVERSEEN x\r\n");
  CHECK(stats->errors[0].get() == 1);
  CHECK(stats->errors[1].get() == 1);
  CHECK(stats->errors[kErrorCodes.size() - 1].get() == 1);
}

}  // namespace penstock::stats
