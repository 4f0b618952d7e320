// Finds out which pipes are better for the load there is: by trying. Pure: samples in, the mode to
// use out; no clock, no threads, no I/O. docs/sharding.md draws it and gives the reasons.
//
//      resting --due, busy--> before -> settle -> trial --worse--> resting (as before)
//                                                  | better
//                                                  v
//                                    settle -> after --still better--> resting (in the new mode)
//                                                    \--not----------> resting (as before)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/sharding/exchange.h"

namespace penstock::sharding {

// CPU of all masters, in seconds since they began. `servers` tells which they are: another number,
// other servers.
struct ServerCpu {
  double seconds = 0;
  std::uint64_t servers = 0;
};

// What the proxy did in one period. Periods are Experiment::kPeriodMs apart.
struct Sample {
  double seconds = 0.1;
  double commands = 0;               // answered
  double proxy_cpu = 0;              // seconds, of the whole process
  std::optional<ServerCpu> server_cpu{};  // if asked for
  double p99_us = 0;                 // of the commands
  double busiest = 0;                // the share of a CPU that the busiest worker used
  double depth = 1;                  // commands in one receive from a client
  double pipelining = 0;             // of clients with requests in flight, the share with several
};

// A mean and the variance of its samples.
class Measure {
 public:
  void add(double value);
  std::uint32_t count() const { return count_; }
  double mean() const { return mean_; }
  // Of the mean, squared.
  double error_squared() const;

 private:
  std::uint32_t count_ = 0;
  double mean_ = 0, sum_of_squares_ = 0;
};

// One window of an experiment.
struct Window {
  Measure rate;           // commands per second
  double commands = 0, proxy_cpu = 0, p99_us = 0;
  std::optional<ServerCpu> servers_before, servers_after;

  void add(const Sample& sample);
  // Microseconds of CPU per command, the servers' included where it is known.
  double cpu_us(bool with_servers) const;
  // Not when a replica has taken over meanwhile: it counts from a beginning of its own.
  bool knows_servers() const {
    return servers_before && servers_after && servers_before->servers == servers_after->servers;
  }
};

// What an experiment found.
struct Verdict {
  Mode from = Mode::worker, to = Mode::worker;
  bool kept = false;
  double rate_before = 0, rate_trial = 0;      // commands per second
  double cpu_before_us = 0, cpu_trial_us = 0;  // per command
  double p99_before_us = 0, p99_trial_us = 0;
  std::string reason;
};

class Experiment {
 public:
  // Between two samples.
  static constexpr int kPeriodMs = 100;

  // The mode to use until the next sample.
  Mode tick(const Sample& sample);
  Mode mode() const;
  // Whether the next sample is to say what the servers' CPUs have done: asking them costs a little.
  bool wants_server_cpu() const;
  // True while a window is measured.
  bool is_trying() const { return phase_ != Phase::resting; }

  const std::optional<Verdict>& last_verdict() const { return verdict_; }
  std::uint64_t probes() const { return probes_; }
  std::uint64_t keeps() const { return keeps_; }
  std::uint64_t reverts() const { return reverts_; }
  // Seconds of busy time until the next one; 0: one is under way.
  double next_probe_in() const;

 private:
  enum class Phase : std::uint8_t { resting, before, settling, trial, settling_back, after };

  // What a load looks like, whatever the mode.
  struct Features {
    double rate = 0, depth = 1, pipelining = 0;

    void follow(const Sample& sample);
    bool differs_from(const Features& other) const;
  };

  void rest(const Sample& sample);
  void note_light_load(const Sample& sample);
  void note_changes();
  void begin(Mode candidate);
  Mode next_candidate();
  bool measure(const Sample& sample, Window& window);
  bool is_hopeless() const;
  void judge_trial();
  void judge_after();
  void end(bool kept, std::string reason);
  void start_over();

  Mode kept_ = Mode::worker;   // what is used when nothing is tried
  Mode tried_ = Mode::worker;  // what is tried
  Phase phase_ = Phase::resting;
  int ticks_ = 0;              // in the phase
  bool light_ = true;          // true while there is too little to do for an experiment
  int light_ticks_ = 0;
  int wait_ = 0;               // ticks of busy rest until the next experiment
  int next_wait_ = 0;
  int changed_ticks_ = 0;      // for how long the load has looked different
  int since_restart_ = 0;      // ticks since it last started over
  int restart_pause_ = 0;      // ticks that must have passed since then
  bool tried_mixed_last_ = false;
  Features now_, known_;       // of the load: now, and when the last experiment ended
  Window before_, trial_, after_;
  std::optional<Verdict> verdict_;
  std::uint64_t probes_ = 0, keeps_ = 0, reverts_ = 0;
};

}  // namespace penstock::sharding
