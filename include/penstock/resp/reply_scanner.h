// Finds the end of one reply frame, incrementally, over any nesting, without a stack or allocation.
// Owned by a connection to a node; one thread. Replies may be hostile: bounded, never recursive.
// Rules: redis.io/docs/reference/protocol-spec (RESP2 and RESP3, no streamed types).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "penstock/resp/request_scanner.h"

namespace penstock::resp {

class ReplyScanner {
 public:
  // Scans on in the frame that starts at bytes[0]. When incomplete, call again with the same frame
  // grown, or, after release(), with what followed the released part.
  ScanStatus scan(std::string_view bytes) {
    if (left_ == 1 && position_ == 0) {
      const ScanStatus status = scan_short(bytes);
      if (status == ScanStatus::complete) return status;
    }
    return scan_on(bytes);
  }

  // After `complete`: bytes of the frame from where scan() started.
  std::size_t frame_size() const { return position_; }

  // After `incomplete`: how many of `bytes` are surely part of the frame and need no second look.
  std::size_t settled(std::size_t bytes) const { return position_ < bytes ? position_ : bytes; }

  // After `incomplete`: at least how many bytes are still to come.
  std::size_t missing(std::size_t bytes) const { return position_ < bytes ? 1 : position_ - bytes; }

  // The first `count` settled bytes of the frame have been passed on; scan() goes on behind them.
  void release(std::size_t count) { position_ -= count; }

  void reset() {
    position_ = 0;
    left_ = 1;
  }

 private:
  ScanStatus scan_short(std::string_view bytes);
  ScanStatus scan_on(std::string_view bytes);
  ScanStatus scan_element(const char*& p, const char* end);
  static ScanStatus skip_line(const char*& p, const char* end);

  std::size_t position_ = 0;  // next byte to look at; beyond the bytes there are inside a payload
  std::uint64_t left_ = 1;    // elements still to come, the frame itself included
};

// A short bulk, a status or a null whole in the buffer: nearly every reply.
inline ScanStatus ReplyScanner::scan_short(std::string_view bytes) {
  if (bytes.size() < 5) return ScanStatus::incomplete;
  const char* p = bytes.data();
  if (p[0] == '+') {
    if (bytes.substr(0, 5) != "+OK\r\n") return ScanStatus::incomplete;
    position_ = 5;
    left_ = 0;
    return ScanStatus::complete;
  }
  if (p[0] != '$') return ScanStatus::incomplete;
  std::size_t length = static_cast<unsigned char>(p[1]) - static_cast<std::size_t>('0');
  if (length > 9) return ScanStatus::incomplete;
  std::size_t at = 2;
  for (; at < 5 && p[at] != '\r'; ++at) {
    const std::size_t digit = static_cast<unsigned char>(p[at]) - static_cast<std::size_t>('0');
    if (digit > 9) return ScanStatus::incomplete;
    length = length * 10 + digit;
  }
  if (at == 5 || at + 4 + length > bytes.size()) return ScanStatus::incomplete;
  if (p[at + 1] != '\n' || p[at + 2 + length] != '\r') return ScanStatus::incomplete;
  position_ = at + 4 + length;
  left_ = 0;
  return ScanStatus::complete;
}

}  // namespace penstock::resp
