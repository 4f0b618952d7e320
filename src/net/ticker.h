// A clock that ticks by itself while a reactor is busy, so that waiting needs no time-out of its
// own: setting and cancelling a kernel timer for every wait is a tenth of a small request's cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "penstock/net/reactor.h"

namespace penstock::net {

class Ticker {
 public:
  static constexpr Nanos kPeriod = 10'000'000;

  Ticker();  // throws std::system_error
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  ~Ticker();

  int fd() const { return fd_; }

  // Ticks while requests are outstanding and for a second after.
  void update(Nanos now, bool busy) {
    if (busy) {
      busy_at_ = now;
      if (!ticking_) set(true);
    } else if (ticking_ && now - busy_at_ > kLinger) {
      set(false);
    }
  }

  // Whether a wait until `left` from now may do without a time-out: a tick ends it soon enough.
  bool covers(Nanos left) const { return ticking_ && left >= kPeriod; }

 private:
  static constexpr Nanos kLinger = 1'000'000'000;

  void set(bool ticking);

  int fd_;
  bool ticking_ = false;
  Nanos busy_at_ = 0;
};

}  // namespace penstock::net
