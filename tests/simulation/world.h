// The simulated world's clock, its events in order of time, and its dice. Everything that happens
// in a simulation is an event here, so one seed gives one history.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "penstock/net/reactor.h"

namespace penstock::simulation {

using net::Nanos;

inline constexpr Nanos kMicrosecond = 1000;
inline constexpr Nanos kMillisecond = 1000 * kMicrosecond;
inline constexpr Nanos kSecond = 1000 * kMillisecond;

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}

  Nanos now() const { return now_; }

  void at(Nanos when, std::function<void()> event) {
    events_.emplace(std::pair(when > now_ ? when : now_, ++events_made_), std::move(event));
  }
  void after(Nanos delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }

  // Runs the next event if it is due by `deadline`; else lets the time pass. False: it passed.
  bool step(Nanos deadline) {
    if (events_.empty() || events_.begin()->first.first > deadline) {
      now_ = deadline > now_ ? deadline : now_;
      return false;
    }
    auto node = events_.extract(events_.begin());
    now_ = node.key().first;
    node.mapped()();
    return true;
  }

  // A whole number from `least` to `most`.
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }

 private:
  Nanos now_ = kSecond;
  std::uint64_t events_made_ = 0;
  std::map<std::pair<Nanos, std::uint64_t>, std::function<void()>> events_;
  std::mt19937_64 random_;
};

}  // namespace penstock::simulation
