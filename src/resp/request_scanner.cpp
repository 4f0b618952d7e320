// Finds the end and the arguments of one request frame: length-driven, so payloads are never read.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/resp/request_scanner.h"

#include <algorithm>
#include <cstring>

#include "penstock/resp/number.h"
#include "resp/inline_request.h"

namespace penstock::resp {
namespace {

// PROTO_INLINE_MAX_SIZE of the server: the longest line without an end that is waited for.
constexpr std::size_t kLineBytesMax = 64 * 1024;

// The server's limits: announced arguments in general, and arguments and bytes before AUTH.
constexpr std::int64_t kArgumentsMax = 2147483647;
constexpr std::int64_t kArgumentsBeforeAuth = 10;
constexpr std::int64_t kBulkBytesBeforeAuth = 16384;

}  // namespace

ScanStatus RequestScanner::scan(std::string_view bytes, const RequestLimits& limits) {
  if (!counted_) {
    if (bytes.empty()) return wait_for(1);
    if (bytes[0] != '*') return scan_inline(bytes);
    const ScanStatus status = scan_count(bytes, limits);
    if (status != ScanStatus::complete) return status;
  }
  return scan_arguments(bytes, limits);
}

void RequestScanner::reset_rest() {
  if (arguments_.size() > kArgumentsKept) std::vector<Argument>(16).swap(arguments_);
  std::string().swap(rewritten_frame_);
  rewritten_ = false;
  verbatim_ = true;
}

ScanStatus RequestScanner::scan_count(std::string_view bytes, const RequestLimits& limits) {
  const char* p = bytes.data() + 1;
  std::int64_t count = 0;
  switch (read_number(p, bytes.data() + bytes.size(), count)) {
    case Line::number: break;
    case Line::incomplete: return wait_for(1);
    case Line::too_long: return fail("too big mbulk count string");
    case Line::invalid: return fail("invalid multibulk length");
  }
  if (count > kArgumentsMax) return fail("invalid multibulk length");
  if (limits.before_auth && count > kArgumentsBeforeAuth) {
    return fail("unauthenticated multibulk length");
  }
  counted_ = true;
  announced_ = count > 0 ? static_cast<std::uint64_t>(count) : 0;
  position_ = static_cast<std::size_t>(p - bytes.data());
  return ScanStatus::complete;
}

ScanStatus RequestScanner::scan_arguments(std::string_view bytes, const RequestLimits& limits) {
  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  const char* p = begin + position_;
  const std::int64_t bulk_max =
      limits.before_auth ? std::min(limits.bulk_bytes, kBulkBytesBeforeAuth) : limits.bulk_bytes;
  bool clean = verbatim_;
  // The payload of the last argument seen may end beyond the bytes there are.
  for (std::uint64_t left = announced_ - count_; left > 0; --left) {
    const char* line = p;
    if (p == end) return wait_for(1);
    ++p;
    std::int64_t length = 0;
    const Line result = read_number(p, end, length);
    if (result != Line::number || *line != '$') [[unlikely]] {
      return bulk_line_failed(result, {line, end});
    }
    if (length < 0 || length > bulk_max) [[unlikely]] {
      const bool invalid = length < 0 || length > limits.bulk_bytes;
      return fail(invalid ? "invalid bulk length" : "unauthenticated bulk length");
    }
    const std::size_t wanted = static_cast<std::size_t>(length) + 2;
    if (static_cast<std::size_t>(end - p) < wanted) {
      position_ = static_cast<std::size_t>(line - begin);
      return wait_for(wanted - static_cast<std::size_t>(end - p));
    }
    add_argument(static_cast<std::size_t>(p - begin), static_cast<std::size_t>(length));
    p += length;
    clean &= p[0] == '\r' && p[1] == '\n';
    p += 2;
    verbatim_ &= clean;
    position_ = static_cast<std::size_t>(p - begin);
  }
  if (!verbatim_) [[unlikely]] rewrite(bytes);
  return ScanStatus::complete;
}

// The server skips the two bytes of a line end unread; other servers may not. So that all read the
// same, such a frame is written anew.
void RequestScanner::rewrite(std::string_view bytes) {
  rewritten_frame_ = "*" + std::to_string(count_) + "\r\n";
  for (Argument& argument : std::span(arguments_.data(), count_)) {
    rewritten_frame_ += "$" + std::to_string(argument.length) + "\r\n";
    const std::size_t offset = rewritten_frame_.size();
    rewritten_frame_ += bytes.substr(argument.offset, argument.length);
    rewritten_frame_ += "\r\n";
    argument.offset = static_cast<std::uint32_t>(offset);
  }
  rewritten_ = true;
}

// Memory grows with the arguments that are there, not with those that were announced.
void RequestScanner::add_argument(std::size_t offset, std::size_t length) {
  if (count_ == arguments_.size()) arguments_.resize(2 * count_);
  arguments_[count_++] = {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(length)};
}

// The server looks at the line's end before it looks at its first byte.
ScanStatus RequestScanner::bulk_line_failed(Line line, std::string_view bytes) {
  const char first = bytes[0];
  const bool ended = first == '\r' && bytes.size() > 1;
  if (line == Line::incomplete && !ended) return wait_for(1);
  if (line == Line::too_long) return fail("too big bulk count string");
  if (first != '$') return fail(std::string("expected '$', got '") + first + "'");
  return fail("invalid bulk length");
}

// Reads a line that holds one number. The usual case, no more than nine digits, is inline.
inline RequestScanner::Line RequestScanner::read_number(const char*& p, const char* end,
                                                        std::int64_t& value) {
  const char* q = p;
  if (end - q >= 12) [[likely]] {
    std::uint32_t digit = static_cast<std::uint32_t>(static_cast<unsigned char>(*q)) - '0';
    std::uint32_t number = digit;
    const bool leading_zero = digit == 0;
    const char* first = q;
    while (digit <= 9) {
      digit = static_cast<std::uint32_t>(static_cast<unsigned char>(*++q)) - '0';
      if (digit > 9) break;
      number = number * 10 + digit;
      if (q - first >= 9) return read_number_slow(p, end, value);
    }
    if (q > first && q[0] == '\r' && q[1] == '\n' && !(leading_zero && q - first > 1)) {
      value = number;
      p = q + 2;
      return Line::number;
    }
  }
  return read_number_slow(p, end, value);
}

RequestScanner::Line RequestScanner::read_number_slow(const char*& p, const char* end,
                                                      std::int64_t& value) {
  const std::size_t there = static_cast<std::size_t>(end - p);
  const char* cr = static_cast<const char*>(std::memchr(p, '\r', there));
  if (cr == nullptr) return there > kLineBytesMax ? Line::too_long : Line::incomplete;
  if (end - cr < 2) return Line::incomplete;
  if (!parse_integer({p, static_cast<std::size_t>(cr - p)}, value)) return Line::invalid;
  verbatim_ &= cr[1] == '\n';
  p = cr + 2;
  return Line::number;
}

ScanStatus RequestScanner::scan_inline(std::string_view bytes) {
  const void* newline = std::memchr(bytes.data() + position_, '\n', bytes.size() - position_);
  if (newline == nullptr) {
    if (bytes.size() > kLineBytesMax) return fail("too big inline request");
    position_ = bytes.size();
    return wait_for(1);
  }
  std::size_t length = static_cast<std::size_t>(static_cast<const char*>(newline) - bytes.data());
  position_ = length + 1;
  rewritten_ = true;
  if (length > 0 && bytes[length - 1] == '\r') --length;
  std::vector<Argument> arguments;
  if (!frame_inline_request(bytes.substr(0, length), rewritten_frame_, arguments)) {
    return fail("unbalanced quotes in request");
  }
  for (const Argument& each : arguments) add_argument(each.offset, each.length);
  return ScanStatus::complete;
}

ScanStatus RequestScanner::fail(std::string_view text) {
  error_ = text;
  return ScanStatus::error;
}

}  // namespace penstock::resp
