// Finds the end of one reply frame: a count of elements still to come replaces a stack.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/resp/reply_scanner.h"

#include <cstring>

#include "penstock/resp/number.h"

namespace penstock::resp {
namespace {

// A node may be set to a larger proto-max-bulk-len than the default; frames are streamed, so the
// bounds here only keep the arithmetic safe.
constexpr std::int64_t kBulkBytesMax = 1LL << 40;
constexpr std::int64_t kElementsMax = 1LL << 40;

// A header line holds one number; more bytes without a line end are not a reply.
constexpr std::size_t kHeaderBytesMax = 64;

}  // namespace

ScanStatus ReplyScanner::scan(std::string_view bytes) {
  while (left_ > 0) {
    if (position_ >= bytes.size()) return ScanStatus::incomplete;
    const char* p = bytes.data() + position_;
    const ScanStatus status = scan_element(p, bytes.data() + bytes.size());
    if (status != ScanStatus::complete) return status;
    position_ = static_cast<std::size_t>(p - bytes.data());
  }
  return position_ > bytes.size() ? ScanStatus::incomplete : ScanStatus::complete;
}

// Moves p behind one element's header and payload; the payload may end beyond `end`.
ScanStatus ReplyScanner::scan_element(const char*& p, const char* end) {
  const char type = *p;
  if (std::strchr("+-:,#_(", type) != nullptr && type != '\0') {
    const ScanStatus status = skip_line(p, end);
    left_ -= status == ScanStatus::complete ? 1 : 0;
    return status;
  }
  const std::size_t there = static_cast<std::size_t>(end - p);
  const char* cr = static_cast<const char*>(std::memchr(p, '\r', there));
  if (cr == nullptr || end - cr < 2) {
    return there > kHeaderBytesMax ? ScanStatus::error : ScanStatus::incomplete;
  }
  std::int64_t value = 0;
  if (cr[1] != '\n' || !parse_integer({p + 1, static_cast<std::size_t>(cr - p - 1)}, value) ||
      value < -1) {
    return ScanStatus::error;
  }
  p = cr + 2;
  const std::uint64_t count = value > 0 ? static_cast<std::uint64_t>(value) : 0;
  switch (type) {
    case '$': case '=': case '!':
      if (value > kBulkBytesMax) return ScanStatus::error;
      --left_;
      if (value >= 0) p += count + 2;
      return ScanStatus::complete;
    case '*': case '~': case '>': left_ += count - 1; break;
    case '%': left_ += 2 * count - 1; break;
    case '|': left_ += 2 * count; break;  // an attribute comes before the value it describes
    default: return ScanStatus::error;
  }
  const bool too_many = value > kElementsMax || left_ > static_cast<std::uint64_t>(kElementsMax);
  return too_many ? ScanStatus::error : ScanStatus::complete;
}

ScanStatus ReplyScanner::skip_line(const char*& p, const char* end) {
  const std::size_t there = static_cast<std::size_t>(end - p);
  const char* cr = static_cast<const char*>(std::memchr(p, '\r', there));
  if (cr == nullptr || end - cr < 2) return ScanStatus::incomplete;
  if (cr[1] != '\n') return ScanStatus::error;
  p = cr + 2;
  return ScanStatus::complete;
}

}  // namespace penstock::resp
