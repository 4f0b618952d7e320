// What a pipe gives back with a reply: whose it is. Plain bytes, echoed unread.
// No pointers cross a pipe or a thread, so a late reply to a dead session falls on the floor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace penstock::backend {

struct ReplyToken {
  static constexpr std::uint32_t kNobody = 0xffffffff;
  static constexpr std::uint32_t kWhole = (1U << 22) - 1;
  static constexpr std::uint32_t kWorkersMax = (1U << 10) - 1;

  std::uint32_t session = kNobody;  // index in its worker's table
  std::uint32_t generation = 0;     // of that index
  std::uint32_t sequence = 0;       // the request's place among its session's
  std::uint32_t part : 22 = kWhole;  // of a command that was split
  std::uint32_t worker : 10 = 0;
};
static_assert(sizeof(ReplyToken) == 16);

}  // namespace penstock::backend
