// When the sharding experiment tries, keeps and gives up. Hours of it: simulation/.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/sharding/experiment.h"

#include <functional>

#include "catch.h"

namespace penstock::sharding {
namespace {

constexpr int kSecond = 1000 / Experiment::kPeriodMs;

// A load in which each mode does so many commands per second.
Sample busy(Mode mode, double worker, double shared) {
  const double rate = mode == Mode::worker ? worker : shared;
  return {.seconds = 0.1, .commands = rate / 10, .proxy_cpu = 0.05, .p99_us = 500, .busiest = 0.9};
}

// So many seconds of a load; how many of them were spent trying another mode.
double run(Experiment& experiment, double seconds, const std::function<Sample(Mode)>& load) {
  const Mode usual = experiment.mode();
  int elsewhere = 0;
  for (int i = 0; i < seconds * kSecond; ++i) {
    elsewhere += experiment.mode() != usual ? 1 : 0;
    experiment.tick(load(experiment.mode()));
  }
  return static_cast<double>(elsewhere) / kSecond;
}

}  // namespace

TEST_CASE("an idle proxy never tries anything") {
  Experiment experiment;
  run(experiment, 3600, [](Mode) { return Sample{.commands = 100, .busiest = 0.05}; });
  CHECK(experiment.probes() == 0);
  CHECK(experiment.mode() == Mode::worker);
}

TEST_CASE("what is clearly better is kept, seconds after the load began") {
  Experiment experiment;
  run(experiment, 12, [](Mode mode) { return busy(mode, 100'000, 130'000); });
  CHECK(experiment.mode() == Mode::shared);
  REQUIRE(experiment.last_verdict());
  CHECK(experiment.last_verdict()->kept);
  CHECK(experiment.last_verdict()->rate_before == Approx(100'000));
  CHECK(experiment.last_verdict()->rate_trial == Approx(130'000));
}

TEST_CASE("what is clearly worse is given up within a second or so") {
  Experiment experiment;
  CHECK(run(experiment, 12, [](Mode mode) { return busy(mode, 100'000, 60'000); }) <= 1.2);
  CHECK(experiment.mode() == Mode::worker);
  CHECK(experiment.reverts() == 1);
  CHECK(experiment.last_verdict()->reason == "clearly slower");
}

TEST_CASE("trials become rare while they confirm what is used") {
  Experiment experiment;
  const auto load = [](Mode mode) { return busy(mode, 100'000, 90'000); };
  run(experiment, 600, load);
  CHECK(experiment.probes() == 5);  // after 3 s, 15 s, 1, 2 and 4 minutes
  run(experiment, 3600, load);
  CHECK(experiment.probes() <= 13);
}

TEST_CASE("a load that grows while another mode is tried is no reason to keep that mode") {
  Experiment experiment;
  const auto load = [](double factor) {
    return [factor](Mode mode) { return busy(mode, 100'000 * factor, 100'000 * factor); };
  };
  while (experiment.mode() == Mode::worker) experiment.tick(load(1)(experiment.mode()));
  run(experiment, 10, load(1.5));
  CHECK(experiment.mode() == Mode::worker);
  CHECK(experiment.last_verdict()->reason == "not better a second time");
}

TEST_CASE("where clients limit the rate, less CPU decides, the servers' included") {
  for (const double trial_us : {9.0, 11.0}) {
    Experiment experiment;
    double server_cpu = 0;
    for (int i = 0; i < 30 * kSecond; ++i) {
      const Mode mode = experiment.mode();
      server_cpu += 1000 * (mode == Mode::shared ? trial_us : 10.0) * 1e-6;
      Sample sample{.commands = 1000, .proxy_cpu = 0.005, .p99_us = 500, .busiest = 0.5};
      if (experiment.wants_server_cpu()) sample.server_cpu = ServerCpu{server_cpu, 1};
      experiment.tick(sample);
    }
    CHECK((experiment.mode() == Mode::shared) == (trial_us < 10));
  }
}

TEST_CASE("a failover in the middle of a trial does not make it look cheap") {
  Experiment experiment;
  ServerCpu servers{1000, 1};
  int ticks_of_trial = 0;
  for (int i = 0; i < 30 * kSecond; ++i) {
    ticks_of_trial += experiment.mode() == Mode::shared ? 1 : 0;
    servers.seconds += 0.01;
    // The new master has used a little less so far than the old one.
    if (ticks_of_trial == 15) servers = {servers.seconds - 0.1, 2};
    Sample sample{.commands = 1000, .proxy_cpu = 0.005, .p99_us = 500, .busiest = 0.5};
    if (experiment.wants_server_cpu()) sample.server_cpu = servers;
    experiment.tick(sample);
  }
  CHECK(ticks_of_trial > 20);
  CHECK(experiment.mode() == Mode::worker);
}

TEST_CASE("cheaper is not better when the slowest commands pay for it") {
  Experiment experiment;
  run(experiment, 30, [](Mode mode) {
    const bool shared = mode == Mode::shared;
    return Sample{.commands = 1000, .proxy_cpu = shared ? 0.004 : 0.005,
                  .p99_us = shared ? 900.0 : 500.0, .busiest = 0.5};
  });
  CHECK(experiment.mode() == Mode::worker);
}

TEST_CASE("where clients get more answers, they do not wait longer, whatever the proxy sees") {
  Experiment experiment;
  run(experiment, 30, [](Mode mode) {
    const bool shared = mode == Mode::shared;
    return Sample{.commands = shared ? 1015.0 : 1000.0, .proxy_cpu = shared ? 0.004 : 0.005,
                  .p99_us = shared ? 900.0 : 500.0, .busiest = 0.5};
  });
  CHECK(experiment.mode() == Mode::shared);
}

TEST_CASE("what was found for a busy proxy is used again when it is busy again") {
  Experiment experiment;
  const auto load = [](Mode mode) { return busy(mode, 100'000, 130'000); };
  run(experiment, 20, load);
  REQUIRE(experiment.mode() == Mode::shared);
  run(experiment, 5, [](Mode) { return Sample{.commands = 10, .busiest = 0.01}; });
  CHECK(experiment.mode() == Mode::worker);
  const auto probes = experiment.probes();
  run(experiment, 0.5, load);
  CHECK(experiment.mode() == Mode::shared);
  CHECK(experiment.probes() == probes);
}

TEST_CASE("a clear change of the load starts over") {
  Experiment experiment;
  run(experiment, 900, [](Mode mode) { return busy(mode, 100'000, 90'000); });
  const auto probes = experiment.probes();
  CHECK(experiment.next_probe_in() > 20);
  run(experiment, 10, [](Mode mode) { return busy(mode, 200'000, 300'000); });
  CHECK(experiment.probes() == probes + 1);
}

TEST_CASE("clients of both kinds have mixed tried, too") {
  Experiment experiment;
  const auto load = [](Mode mode) {
    Sample sample = busy(mode, 100'000, 90'000);
    if (mode == Mode::mixed) sample.commands = 12'000;
    sample.pipelining = 0.5;
    return sample;
  };
  run(experiment, 60, load);
  CHECK(experiment.mode() == Mode::mixed);
}

}  // namespace penstock::sharding
