// Differences of counters.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/sharding/load_sampler.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace penstock::sharding {
namespace {

double process_cpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

LoadSampler::LoadSampler(std::vector<const stats::WorkerStats*> workers)
    : workers_(std::move(workers)), last_(count()) {}

LoadSampler::Counts LoadSampler::count() const {
  Counts counts;
  counts.process_cpu = process_cpu();
  for (const stats::WorkerStats* worker : workers_) {
    counts.receives += worker->client_receives.get();
    counts.looks_in_flight += worker->looks_in_flight.get();
    counts.looks_pipelining += worker->looks_pipelining.get();
    counts.worker_cpu_us.push_back(worker->cpu_us.get());
    counts.latency.add(worker->latency);
  }
  return counts;
}

Sample LoadSampler::take(double seconds, std::optional<ServerCpu> server_cpu) {
  Counts now = count();
  Sample sample{.seconds = seconds, .server_cpu = server_cpu};
  stats::HistogramTotals latency = now.latency;
  latency.subtract(last_.latency);
  sample.commands = static_cast<double>(latency.count());
  sample.p99_us = static_cast<double>(latency.percentile(0.99));
  sample.proxy_cpu = now.process_cpu - last_.process_cpu;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const auto used = static_cast<double>(now.worker_cpu_us[i] - last_.worker_cpu_us[i]);
    sample.busiest = std::max(sample.busiest, used * 1e-6 / seconds);
  }
  if (const auto receives = static_cast<double>(now.receives - last_.receives); receives > 0) {
    depth_ = sample.commands / receives;
  }
  if (const auto looks = static_cast<double>(now.looks_in_flight - last_.looks_in_flight);
      looks > 0) {
    pipelining_ =
        static_cast<double>(now.looks_pipelining - last_.looks_pipelining) / looks;
  }
  sample.depth = depth_;
  sample.pipelining = pipelining_;
  last_ = std::move(now);
  return sample;
}

}  // namespace penstock::sharding
