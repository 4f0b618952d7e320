// CHECK: an invariant of our own code; it stays on in release builds.
// For bugs only: input from a peer, however hostile, must never reach one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace penstock {

[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace penstock

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::penstock::check_failed(#condition, __FILE__, __LINE__);      \
  } while (false)
