// A clock that ticks by itself while a reactor is busy.
// SPDX-License-Identifier: Apache-2.0
#include "net/ticker.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace penstock::net {

Ticker::Ticker() : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "timerfd");
}

Ticker::~Ticker() { ::close(fd_); }

void Ticker::set(bool ticking) {
  ticking_ = ticking;
  const timespec period{0, ticking ? kPeriod : 0};
  const itimerspec setting{period, period};
  timerfd_settime(fd_, 0, &setting, nullptr);
}

}  // namespace penstock::net
