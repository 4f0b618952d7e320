// Turns what the workers count into samples for the experiment. One thread, any one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "penstock/sharding/experiment.h"
#include "penstock/stats/worker_stats.h"

namespace penstock::sharding {

class LoadSampler {
 public:
  // The workers' counters must outlive it.
  explicit LoadSampler(std::vector<const stats::WorkerStats*> workers);

  // What happened in the last `seconds`, that is, since the last call.
  Sample take(double seconds, std::optional<ServerCpu> server_cpu);

 private:
  // Counters as they were.
  struct Counts {
    std::uint64_t receives = 0, looks_in_flight = 0, looks_pipelining = 0;
    double process_cpu = 0;
    std::vector<std::uint64_t> worker_cpu_us;
    stats::HistogramTotals latency;
  };

  Counts count() const;

  const std::vector<const stats::WorkerStats*> workers_;
  Counts last_;
  double depth_ = 1, pipelining_ = 0;  // the last that were seen
};

}  // namespace penstock::sharding
