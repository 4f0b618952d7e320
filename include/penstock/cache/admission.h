// Whether a reply is worth keeping. Keeping one costs the node about a command, a hit saves it one:
// so replies are kept as long as those of late were hit often enough, and now and then in any case,
// so that a new hot set is found. Pure; one per worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::cache {

class Admission {
 public:
  // Hits for each kept reply: none is kept at `least` or below, all are from `enough` on.
  struct Price {
    double least, enough;
  };
  // With opt-in a fill is three commands instead of one.
  static constexpr Price kOptin{1, 2};
  // With broadcast it is two, or none where the value of a write is kept.
  static constexpr Price kBroadcast{0.3, 0.8};

  explicit Admission(Price price) : price_(price), hits_(2 * price.enough * kWindow) {}

  void count(bool hit) {
    hits_ += hit ? 1 : 0;
    if (++reads_ >= kWindow) [[unlikely]] end_window();
  }
  bool admits() {
    credit_ += share_;
    if (credit_ < 1) return false;
    credit_ -= 1;
    kept_ += 1;
    return true;
  }
  // Of late, with what is older counting less.
  double hits_per_kept() const { return kept_ < 1 ? 0 : hits_ / kept_; }
  double share() const { return share_; }

 private:
  // Reads between two looks; each look forgets an eighth of what was before.
  static constexpr std::uint32_t kWindow = 1024;
  static constexpr double kForgets = 0.125;
  // One in a hundred misses costs a load without locality about one percent.
  static constexpr double kFloor = 0.01;

  void end_window() {
    const double worth = (hits_per_kept() - price_.least) / (price_.enough - price_.least);
    share_ = std::clamp(worth, kFloor, 1.0);
    hits_ *= 1 - kForgets;
    kept_ *= 1 - kForgets;
    reads_ = 0;
  }

  Price price_;
  std::uint32_t reads_ = 0;
  double hits_;  // as if there had been many: a new cache is filled at once
  double kept_ = kWindow;
  double share_ = 1;
  double credit_ = 0;
};

}  // namespace penstock::cache
