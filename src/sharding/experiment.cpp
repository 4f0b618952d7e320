// Trying the other pipes, and the rules for keeping them.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/sharding/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::sharding {
namespace {

constexpr int seconds(int count) { return count * 1000 / Experiment::kPeriodMs; }

// A window: long enough that 10 % noise of single samples leaves an error of 2 % of the mean, short
// enough that a wrong trial costs little.
constexpr int kWindow = seconds(2);
// After a change of mode sessions move over as they become idle; what they do meanwhile is neither.
constexpr int kSettle = seconds(1) / 2;
// A trial that is clearly worse by then ends there.
constexpr int kHopelessAfter = 5;
constexpr double kHopeless = 0.90;

// From the first busy second to the first experiment, to the second, then one a minute; doubling
// up to eight minutes for as long as experiments confirm what is used.
constexpr int kFirstWait = seconds(3);
constexpr int kSecondWait = seconds(15);
constexpr int kShortWait = seconds(60);
constexpr int kLongestWait = seconds(480);

// Only a gain of so much counts, and only if it is so many standard errors of the difference: then
// one of 700 experiments on pure noise takes noise for a gain, and two windows must agree.
constexpr double kGain = 0.02;
constexpr double kErrors = 3.0;
// Where commands per second are the same, less CPU per command decides; measured without variance,
// so it must be clearly more, and more than two windows of one mode differ.
constexpr double kCpuGain = 0.04;
constexpr double kRateLoss = 0.01;
// And the slowest hundredth must not pay for it. The proxy sees only its own part of their time,
// which grows with fuller batches; where clients get more answers, they wait less all the same.
constexpr double kP99Loss = 1.25;
constexpr double kMoreAnswers = 0.01;

// A worker that uses less of its CPU has nothing to win; own pipes have no hand-over in the way.
constexpr double kBusyFrom = 0.20, kBusyUntil = 0.10;
constexpr int kLightAfter = seconds(2);

// The load has clearly changed when its rate, or the depth of pipelines, differs by this factor, or
// so many more of the clients pipeline, for so long. Each start over that changes nothing doubles
// the pause before the next.
constexpr double kChangeFactor = 1.5;
constexpr double kChangeShare = 0.25;
constexpr int kChangeAfter = seconds(2);
constexpr int kRestartPause = seconds(30);
// How much of the present goes into the features with every sample.
constexpr double kFollow = 0.1;

// With fewer of the other kind of client, mixed is the same as one of the others.
constexpr double kMixedFrom = 0.05, kMixedUntil = 0.95;

bool is_gain(const Measure& before, const Measure& trial) {
  const double gain = trial.mean() - before.mean();
  const double error = std::sqrt(before.error_squared() + trial.error_squared());
  return gain > kGain * before.mean() && gain > kErrors * error;
}

// Whether what was tried makes commands late, compared with a window before or after it.
bool is_late(const Window& trial, const Window& other) {
  return trial.p99_us > kP99Loss * other.p99_us &&
         trial.rate.mean() < (1 + kMoreAnswers) * other.rate.mean();
}

std::string percent(double trial, double before) {
  return fmt::format("{:+.1f} %", before > 0 ? 100 * (trial / before - 1) : 0.0);
}

}  // namespace

void Measure::add(double value) {
  ++count_;
  const double delta = value - mean_;
  mean_ += delta / count_;
  sum_of_squares_ += delta * (value - mean_);
}

double Measure::error_squared() const {
  if (count_ < 2) return mean_ * mean_;
  return sum_of_squares_ / (count_ - 1) / count_;
}

void Window::add(const Sample& sample) {
  rate.add(sample.commands / sample.seconds);
  commands += sample.commands;
  proxy_cpu += sample.proxy_cpu;
  p99_us += (sample.p99_us - p99_us) / rate.count();
}

double Window::cpu_us(bool with_servers) const {
  if (commands <= 0) return 0;
  const double servers = with_servers ? servers_after->seconds - servers_before->seconds : 0;
  return (proxy_cpu + servers) / commands * 1e6;
}

void Experiment::Features::follow(const Sample& sample) {
  rate += (sample.commands / sample.seconds - rate) * kFollow;
  depth += (sample.depth - depth) * kFollow;
  pipelining += (sample.pipelining - pipelining) * kFollow;
}

bool Experiment::Features::differs_from(const Features& other) const {
  const auto far = [](double a, double b) {
    return a > b * kChangeFactor || b > a * kChangeFactor;
  };
  return far(rate, other.rate) || far(depth, other.depth) ||
         std::abs(pipelining - other.pipelining) > kChangeShare;
}

Mode Experiment::mode() const {
  if (phase_ == Phase::settling || phase_ == Phase::trial) return tried_;
  return light_ ? Mode::worker : kept_;
}

bool Experiment::wants_server_cpu() const {
  switch (phase_) {
    case Phase::resting: return !light_ && wait_ <= 1;
    case Phase::settling:
    case Phase::settling_back: return ticks_ + 1 >= kSettle;
    default: return ticks_ + 1 >= kWindow;
  }
}

double Experiment::next_probe_in() const {
  return is_trying() ? 0 : std::max(wait_, 0) * kPeriodMs / 1000.0;
}

Mode Experiment::tick(const Sample& sample) {
  ++since_restart_;
  switch (phase_) {
    case Phase::resting: rest(sample); break;
    case Phase::before:
      if (measure(sample, before_)) {
        phase_ = Phase::settling;
        ticks_ = 0;
      }
      break;
    case Phase::settling:
    case Phase::settling_back: {
      if (++ticks_ < kSettle) break;
      const bool back = phase_ == Phase::settling_back;
      (back ? after_ : trial_).servers_before = sample.server_cpu;
      phase_ = back ? Phase::after : Phase::trial;
      ticks_ = 0;
      break;
    }
    case Phase::trial:
      if (measure(sample, trial_)) {
        judge_trial();
      } else if (is_hopeless()) {
        end(false, "clearly slower");
      }
      break;
    case Phase::after:
      if (measure(sample, after_)) judge_after();
      break;
  }
  return mode();
}

void Experiment::rest(const Sample& sample) {
  now_.follow(sample);
  note_light_load(sample);
  if (light_) return;
  note_changes();
  if (--wait_ > 0) return;
  before_.servers_before = sample.server_cpu;
  begin(next_candidate());
}

// An idle proxy never experiments. What was found for a busy one is kept for when it is busy again.
void Experiment::note_light_load(const Sample& sample) {
  light_ticks_ = sample.busiest < (light_ ? kBusyFrom : kBusyUntil) ? light_ticks_ + 1 : 0;
  if (light_ && light_ticks_ == 0) {
    light_ = false;
    if (next_wait_ == 0) start_over();
  } else if (!light_ && light_ticks_ >= kLightAfter) {
    light_ = true;
  }
}

void Experiment::note_changes() {
  if (!verdict_) return;
  changed_ticks_ = now_.differs_from(known_) ? changed_ticks_ + 1 : 0;
  if (changed_ticks_ < kChangeAfter || since_restart_ < restart_pause_) return;
  restart_pause_ = std::min(2 * restart_pause_, kLongestWait);
  known_ = now_;
  wait_ = std::min(wait_, kFirstWait);
  next_wait_ = kSecondWait;
  changed_ticks_ = 0;
  since_restart_ = 0;
}

void Experiment::start_over() {
  wait_ = kFirstWait;
  next_wait_ = kSecondWait;
  restart_pause_ = kRestartPause;
}

// The other one; or mixed in its turn, where clients of both kinds are there.
Mode Experiment::next_candidate() {
  const bool both = now_.pipelining > kMixedFrom && now_.pipelining < kMixedUntil;
  const Mode other = kept_ == Mode::worker ? Mode::shared : Mode::worker;
  if (!both) return other;
  if (kept_ == Mode::mixed) {
    tried_mixed_last_ = !tried_mixed_last_;
    return tried_mixed_last_ ? Mode::worker : Mode::shared;
  }
  tried_mixed_last_ = !tried_mixed_last_;
  return tried_mixed_last_ ? Mode::mixed : other;
}

void Experiment::begin(Mode candidate) {
  ++probes_;
  tried_ = candidate;
  trial_ = after_ = Window{};
  phase_ = Phase::before;
  ticks_ = 0;
}

// True once the window is full.
bool Experiment::measure(const Sample& sample, Window& window) {
  window.add(sample);
  if (++ticks_ < kWindow) return false;
  window.servers_after = sample.server_cpu;
  return true;
}

bool Experiment::is_hopeless() const {
  const Measure& trial = trial_.rate;
  const double error = std::sqrt(before_.rate.error_squared() + trial.error_squared());
  return static_cast<int>(trial.count()) >= kHopelessAfter &&
         trial.mean() < kHopeless * before_.rate.mean() &&
         before_.rate.mean() - trial.mean() > kErrors * error;
}

void Experiment::judge_trial() {
  const bool servers = before_.knows_servers() && trial_.knows_servers();
  const bool faster = is_gain(before_.rate, trial_.rate);
  const bool slower = trial_.rate.mean() < (1 - kRateLoss) * before_.rate.mean();
  const bool cheaper = trial_.cpu_us(servers) < (1 - kCpuGain) * before_.cpu_us(servers) &&
                       !is_late(trial_, before_);
  if (!faster && (slower || !cheaper)) return end(false, slower ? "slower" : "not better");
  phase_ = Phase::settling_back;
  ticks_ = 0;
}

// Against the window after it, too: what grew by itself in the meantime is no gain.
void Experiment::judge_after() {
  if (is_gain(before_.rate, trial_.rate) && is_gain(after_.rate, trial_.rate)) {
    return end(true, fmt::format("commands per second {}, before and after",
                                 percent(trial_.rate.mean(), before_.rate.mean())));
  }
  const bool servers = before_.knows_servers() && trial_.knows_servers() && after_.knows_servers();
  const double before = before_.cpu_us(servers), trial = trial_.cpu_us(servers),
               after = after_.cpu_us(servers);
  const double gain = std::min(before, after) - trial;
  const bool cheaper = gain > kCpuGain * before && gain > 2 * std::abs(before - after);
  const bool slower = trial_.rate.mean() <
                      (1 - kRateLoss) * std::max(before_.rate.mean(), after_.rate.mean());
  const bool late = is_late(trial_, before_) && is_late(trial_, after_);
  if (cheaper && !slower && !late) {
    return end(true, fmt::format("CPU per command {}{}, before and after", percent(trial, before),
                                 servers ? ", servers included" : ""));
  }
  end(false, "not better a second time");
}

void Experiment::end(bool kept, std::string reason) {
  const bool servers = before_.knows_servers() && trial_.knows_servers();
  verdict_ = Verdict{.from = kept_,
                     .to = tried_,
                     .kept = kept,
                     .rate_before = before_.rate.mean(),
                     .rate_trial = trial_.rate.mean(),
                     .cpu_before_us = before_.cpu_us(servers),
                     .cpu_trial_us = trial_.cpu_us(servers),
                     .p99_before_us = before_.p99_us,
                     .p99_trial_us = trial_.p99_us,
                     .reason = std::move(reason)};
  ++(kept ? keeps_ : reverts_);
  if (kept) {
    kept_ = tried_;
    next_wait_ = kShortWait;
    restart_pause_ = kRestartPause;
  }
  wait_ = next_wait_;
  next_wait_ = next_wait_ < kShortWait ? kShortWait : std::min(2 * next_wait_, kLongestWait);
  now_ = {.rate = kept ? trial_.rate.mean() : before_.rate.mean(), .depth = now_.depth,
          .pipelining = now_.pipelining};
  known_ = now_;
  before_ = Window{};
  phase_ = Phase::resting;
  ticks_ = 0;
}

}  // namespace penstock::sharding
