// What liburing 2.3 does not name yet; the values are the kernel's (include/uapi/linux/io_uring.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <liburing.h>

#include <cstdint>

namespace penstock::net::uring {

inline constexpr unsigned kFeatureMinTimeout = 1U << 15;  // 6.12: io_uring_getevents_arg has one
inline constexpr unsigned kFeatureNoIowait = 1U << 17;    // 6.15
inline constexpr unsigned kEnterNoIowait = 1U << 7;       // waiting is not counted as iowait

// struct io_uring_getevents_arg since 6.12; before, min_wait_usec is a pad that must be zero.
struct EventsArgument {
  std::uint64_t sigmask = 0;
  std::uint32_t sigmask_size = 0;
  std::uint32_t min_wait_usec = 0;
  std::uint64_t timespec = 0;
};

}  // namespace penstock::net::uring
