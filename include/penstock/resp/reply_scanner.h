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
  ScanStatus scan(std::string_view bytes);

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
  ScanStatus scan_element(const char*& p, const char* end);
  static ScanStatus skip_line(const char*& p, const char* end);

  std::size_t position_ = 0;  // next byte to look at; beyond the bytes there are inside a payload
  std::uint64_t left_ = 1;    // elements still to come, the frame itself included
};

// The size of a short reply that is whole in the buffer: a bulk of under a hundred bytes, an OK or
// a null bulk, which is what nearly every reply is. 0: look closer, with a scanner.
inline std::size_t short_reply_size(std::string_view bytes) {
  if (bytes.size() < 5) return 0;
  const char* p = bytes.data();
  if (*p == '$' && bytes.size() >= 8) {
    unsigned length = 0;
    if (!read_short_bulk_line(p, length)) {
      return std::memcmp(bytes.data(), "$-1\r\n", 5) == 0 ? 5 : 0;
    }
    const std::size_t size = static_cast<std::size_t>(p - bytes.data()) + length + 2;
    if (size > bytes.size() || !is_line_end(p + length)) return 0;
    return size;
  }
  return std::memcmp(bytes.data(), "+OK\r\n", 5) == 0 ? 5 : 0;
}

}  // namespace penstock::resp
