// The hash slot of a key: CRC16 (XMODEM) modulo 16384 of its hash tag, or of the whole key.
// Rule: redis.io/docs/reference/cluster-spec, "Hash tags". Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace penstock::cluster {

using Slot = std::uint16_t;
inline constexpr Slot kSlots = 16384;
inline constexpr Slot kNoSlot = 0xffff;

std::uint16_t crc16(std::string_view bytes);

// What is hashed of a key: between the first '{' and the first '}' after it, unless that is empty.
inline std::string_view hash_tag(std::string_view key) {
  const void* open = std::memchr(key.data(), '{', key.size());
  if (open == nullptr) [[likely]] return key;
  const char* tag = static_cast<const char*>(open) + 1;
  const std::size_t left = static_cast<std::size_t>(key.data() + key.size() - tag);
  const void* close = std::memchr(tag, '}', left);
  if (close == nullptr || close == tag) return key;
  return {tag, static_cast<std::size_t>(static_cast<const char*>(close) - tag)};
}

Slot hash_slot(std::string_view key);

}  // namespace penstock::cluster
