// Counters of workers as samples for the experiment.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/sharding/load_sampler.h"

#include <memory>

#include "catch.h"

namespace penstock::sharding {

TEST_CASE("a sample has what happened since the last one, over all workers") {
  const auto first = std::make_unique<stats::WorkerStats>(),
             second = std::make_unique<stats::WorkerStats>();
  for (int i = 0; i < 1000; ++i) first->latency.record(5000);
  first->latency.flush();
  first->cpu_us.set(1'000'000);
  LoadSampler sampler({first.get(), second.get()});

  for (int i = 0; i < 300; ++i) first->latency.record(100);
  for (int i = 0; i < 100; ++i) second->latency.record(200);
  first->latency.flush();
  second->latency.flush();
  first->cpu_us.set(1'010'000);
  second->cpu_us.set(40'000);
  first->client_receives.add(90);
  second->client_receives.add(10);
  second->looks_in_flight.add(8);
  second->looks_pipelining.add(2);

  const Sample sample = sampler.take(0.1, ServerCpu{12.5, 1});
  CHECK(sample.commands == 400);
  CHECK(sample.p99_us >= 200);
  CHECK(sample.p99_us < 220);
  CHECK(sample.busiest == Approx(0.4));
  CHECK(sample.depth == Approx(4));
  CHECK(sample.pipelining == Approx(0.25));
  CHECK(sample.server_cpu->seconds == 12.5);
  CHECK(sample.proxy_cpu >= 0);

  const Sample quiet = sampler.take(0.1, std::nullopt);
  CHECK(quiet.commands == 0);
  CHECK(quiet.busiest == 0);
  CHECK(quiet.pipelining == Approx(0.25));  // nothing new is known of it
  CHECK_FALSE(quiet.server_cpu);
}

}  // namespace penstock::sharding
