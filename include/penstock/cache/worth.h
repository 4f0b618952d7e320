// Whether the reply cache is worth its cost with the load that there is: an hour of a load without
// locality must not be slower for it than an hour without a cache. Weighs what hits save against
// what reads, writes and announcements cost, rests when the balance is bad, and tries again now and
// then. A pure state machine: no clock, no threads, no I/O. One for the process.
//
//      working --(bad balance)--> resting --(a while)--> trying --(good)--> working
//                                    ^--------------------(bad)------| rests twice as long
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::cache {

class Worth {
 public:
  // What was counted since the last look.
  struct Sample {
    double seconds = 0;
    double hits = 0, misses = 0, fills = 0, writes_kept = 0;
    double writes = 0;     // of this proxy's clients
    double announced = 0;  // keys that nodes named
  };
  // In commands of a node; measured, see docs/reply_cache.md.
  struct Costs {
    double miss, fill, write, write_kept, announced;
  };
  static constexpr Costs kOptin{0.05, 1.5, 0.1, 0, 0.3};
  static constexpr Costs kBroadcast{0.05, 1, 0.6, 0.3, 0.1};

  enum class State : std::uint8_t { working, resting, trying };

  explicit Worth(Costs costs) : costs_(costs) {}

  // About ten times a second. Whether the cache is to work from now on.
  bool tick(const Sample& sample) {
    if (state_ == State::resting) {
      rested_ += sample.seconds;
      if (rested_ >= rest_) begin(State::trying);
    } else {
      add(sample);
      if (seconds_ >= (state_ == State::trying ? kTrial : kWindow)) judge();
    }
    return state_ != State::resting;
  }

  State state() const { return state_; }
  // Commands of a node saved for each one that it cost, in the last window.
  double balance() const { return balance_; }

 private:
  // A new cache, or one after a trial's beginning, has to be filled before it can be judged.
  static constexpr double kWarmUp = 3;
  static constexpr double kWindow = 4;
  static constexpr double kTrial = 2;
  static constexpr double kFirstRest = 30, kLongestRest = 480;
  // Fewer reads and writes per second are not worth a judgement, or a rest.
  static constexpr double kIdle = 200;

  void begin(State state) {
    state_ = state;
    saved_ = cost_ = seconds_ = commands_ = 0;
    warm_up_ = state == State::trying ? kWarmUp : 0;
  }
  void add(const Sample& sample) {
    if (warm_up_ > 0) {
      warm_up_ -= sample.seconds;
      return;
    }
    seconds_ += sample.seconds;
    commands_ += sample.hits + sample.misses + sample.writes;
    saved_ += sample.hits;
    cost_ += sample.misses * costs_.miss + sample.fills * costs_.fill +
             sample.writes * costs_.write + sample.writes_kept * costs_.write_kept +
             sample.announced * costs_.announced;
  }
  void judge() {
    const bool idle = commands_ < kIdle * seconds_;
    balance_ = cost_ > 0 ? saved_ / cost_ : 0;
    if (idle || saved_ >= cost_) {
      rest_ = kFirstRest;
      return begin(State::working);
    }
    if (state_ == State::trying) rest_ = std::min(2 * rest_, kLongestRest);
    rested_ = 0;
    begin(State::resting);
  }

  Costs costs_;
  State state_ = State::working;
  double warm_up_ = 2 * kWarmUp;
  double saved_ = 0, cost_ = 0, seconds_ = 0, commands_ = 0;
  double rest_ = kFirstRest, rested_ = 0;
  double balance_ = 0;
};

}  // namespace penstock::cache
