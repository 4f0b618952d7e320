// The sharding experiment against a model of a proxy under load: an hour for each of many
// workloads, beside both fixed modes. Prints what share of the better one's commands it delivers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "penstock/sharding/experiment.h"

namespace penstock::sharding {
namespace {

// What a workload is at a time: commands per second that clients would send, and that the proxy
// can do in each mode (worker, mixed, shared); microseconds of CPU per command.
struct Load {
  double demand = 1e9;
  std::array<double, 3> capacity{100'000, 100'000, 100'000};
  std::array<double, 3> proxy_cpu_us{5, 5, 5}, server_cpu_us{5, 5, 5};
  double depth = 1, pipelining = 0;
  double noise = 0.02;  // standard deviation of a sample's rate
  double drift = 0;     // the same of noise that lasts: it keeps 90 % from sample to sample
};

using Workload = std::function<Load(double seconds)>;

constexpr double kPeriod = Experiment::kPeriodMs / 1000.0;
constexpr int kTicksPerHour = static_cast<int>(3600 / kPeriod);

// A proxy that takes a moment to change over.
class Plant {
 public:
  explicit Plant(Workload workload) : workload_(std::move(workload)) {}

  // One period in this mode. What the experiment would see of it.
  Sample step(Mode mode) {
    const Load load = workload_(time_);
    time_ += kPeriod;
    const auto index = static_cast<std::size_t>(mode);
    drift_ = 0.9 * drift_ + normal_(random_) * load.drift * std::sqrt(1 - 0.81);
    double rate = load.capacity[index] * std::max(0.0, 1 + drift_ + normal_(random_) * load.noise);
    if (mode != mode_) rate *= 0.7;  // sessions move over one by one
    mode_ = mode;
    const double busy = std::min(1.0, load.demand / std::max(rate, 1.0));
    rate = std::min(rate, load.demand * (1 + normal_(random_) * load.noise / 4));
    rate = std::max(rate, 0.0);
    const double commands = rate * kPeriod;
    delivered += commands;
    server_cpu_ += commands * load.server_cpu_us[index] * 1e-6;
    return {.seconds = kPeriod,
            .commands = commands,
            .proxy_cpu = commands * load.proxy_cpu_us[index] * 1e-6 *
                         (1 + normal_(random_) * load.noise),
            .server_cpu = ServerCpu{server_cpu_, 1},
            .p99_us = 500 * (1 + busy),
            .busiest = busy,
            .depth = load.depth,
            .pipelining = load.pipelining};
  }

  double delivered = 0;

 private:
  Workload workload_;
  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
  double time_ = 0, server_cpu_ = 0, drift_ = 0;
  Mode mode_ = Mode::worker;
};

double run_fixed(const Workload& workload, Mode mode) {
  Plant plant(workload);
  for (int i = 0; i < kTicksPerHour; ++i) plant.step(mode);
  return plant.delivered;
}

struct Outcome {
  double delivered = 0;
  Experiment experiment;
};

Outcome run_auto(const Workload& workload) {
  Outcome outcome;
  Plant plant(workload);
  for (int i = 0; i < kTicksPerHour; ++i) {
    Sample sample = plant.step(outcome.experiment.mode());
    if (!outcome.experiment.wants_server_cpu()) sample.server_cpu.reset();
    outcome.experiment.tick(sample);
  }
  outcome.delivered = plant.delivered;
  return outcome;
}

Workload steady(Load load) {
  return [load](double) { return load; };
}

// One load for so many seconds, then the other, and so on.
Workload alternating(Load first, Load second, double seconds) {
  return [=](double time) { return std::fmod(time, 2 * seconds) < seconds ? first : second; };
}

Load with(double worker, double mixed, double shared, double depth = 1, double pipelining = 0) {
  Load load;
  load.capacity = {worker, mixed, shared};
  load.depth = depth;
  load.pipelining = pipelining;
  return load;
}

Load noisy(Load load, double noise) {
  load.noise = noise;
  return load;
}

Load drifting(Load load, double drift) {
  load.drift = drift;
  return load;
}

Load limited(Load load, double demand) {
  load.demand = demand;
  return load;
}

const Load kFewUnpipelined = with(60'000, 40'000, 40'000);
const Load kManyUnpipelined = with(100'000, 130'000, 130'000);
const Load kPipelined = with(400'000, 400'000, 320'000, 16, 1);
const Load kDeep = with(900'000, 900'000, 890'000, 64, 1);
const Load kSliding = with(250'000, 250'000, 400'000, 2, 1);
const Load kBothKinds = with(200'000, 230'000, 190'000, 4, 0.4);

std::vector<std::pair<std::string, Workload>> workloads() {
  const Load idle = limited(kManyUnpipelined, 50);
  const auto daily = [](double time) {
    const double share = 0.55 - 0.45 * std::cos(time * 2 * 3.14159265 / 1800);
    return limited(kManyUnpipelined, 140'000 * share);
  };
  const auto slow_change = [](double time) {
    const double share = time / 3600;
    return with(100'000 + 200'000 * share, 120'000 + 180'000 * share, 150'000 + 60'000 * share,
                1 + 15 * share, share);
  };
  Load cheaper_servers = limited(with(200'000, 200'000, 200'000), 90'000);
  cheaper_servers.server_cpu_us = {9, 6, 6};
  return {
      {"unpipelined, few clients", steady(kFewUnpipelined)},
      {"unpipelined, many clients", steady(kManyUnpipelined)},
      {"pipelined", steady(kPipelined)},
      {"deep pipelines", steady(kDeep)},
      {"sliding pipelines", steady(kSliding)},
      {"both kinds of clients", steady(kBothKinds)},
      {"a step every ten minutes", alternating(kManyUnpipelined, kPipelined, 600)},
      {"a step every 90 seconds", alternating(kSliding, kPipelined, 90)},
      {"a daily curve in half an hour", daily},
      {"a slow change of kind", slow_change},
      {"limited by the clients", steady(limited(kManyUnpipelined, 60'000))},
      {"limited, cheaper for the servers", steady(cheaper_servers)},
      {"idle", steady(idle)},
      {"ten seconds busy, ten idle", alternating(kManyUnpipelined, idle, 10)},
      {"10 % noise, shared better", steady(noisy(kManyUnpipelined, 0.10))},
      {"10 % noise, worker better", steady(noisy(kPipelined, 0.10))},
      {"10 % noise, no difference", steady(noisy(with(100'000, 100'000, 100'000), 0.10))},
      {"10 % noise that lasts", steady(drifting(with(100'000, 96'000, 96'000), 0.10))},
      {"at the threshold, worker better", steady(with(100'000, 98'500, 98'500))},
      {"at the threshold, shared better", steady(with(100'000, 101'900, 101'900))},
      {"turning around with the first trial",
       alternating(with(100'000, 140'000, 140'000), with(140'000, 100'000, 100'000), 11)},
      {"turning around every minute",
       alternating(with(100'000, 130'000, 130'000), with(130'000, 100'000, 100'000), 60)},
  };
}

}  // namespace

TEST_CASE("over an hour, auto delivers 98 % of the better fixed mode whatever the load") {
  fmt::print("{:38} {:>7} {:>7} {:>6} {:>6} {:>6}\n", "sharding: share of the better fixed mode",
             "auto", "worse", "probes", "keeps", "in");
  for (const auto& [name, workload] : workloads()) {
    const double worker = run_fixed(workload, Mode::worker);
    const double shared = run_fixed(workload, Mode::shared);
    const Outcome outcome = run_auto(workload);
    const double better = std::max(worker, shared);
    const double share = outcome.delivered / better;
    fmt::print("{:40} {:6.2f}% {:6.2f}% {:6} {:6} {:>6}\n", name, 100 * share,
               100 * std::min(worker, shared) / better, outcome.experiment.probes(),
               outcome.experiment.keeps(),
               std::array{"worker", "mixed", "shared"}[static_cast<std::size_t>(
                   outcome.experiment.mode())]);
    INFO(name);
    CHECK(share >= 0.98);
  }
}

}  // namespace penstock::sharding
