// What a pipe gives back with a reply: whose it is. Plain bytes, echoed unread.
// No pointers cross a pipe or a thread, so a late reply to a dead session falls on the floor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace penstock::backend {

struct ReplyToken {
  static constexpr std::uint32_t kNobody = 0xffffffff;
  static constexpr std::uint16_t kWhole = 0xffff;

  std::uint32_t session = kNobody;  // index in its worker's table
  std::uint32_t generation = 0;     // of that index
  std::uint32_t sequence = 0;       // the request's place among its session's
  std::uint16_t part = kWhole;      // of a command that was split
  std::uint16_t worker = 0;

  bool is_nobody() const { return session == kNobody; }
};
static_assert(sizeof(ReplyToken) == 16);

}  // namespace penstock::backend
