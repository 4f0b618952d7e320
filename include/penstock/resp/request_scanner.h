// Finds the end and the arguments of one request frame, incrementally and without reading payloads.
// Owned by a session (or shared by a worker's sessions between frames); one thread.
// Rules: redis.io/docs/reference/protocol-spec and the server's own limits and error texts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/resp/request.h"

namespace penstock::resp {

enum class ScanStatus : std::uint8_t { complete, incomplete, error };

// What one request may announce.
struct RequestLimits {
  std::int64_t bulk_bytes = 512LL << 20;  // proto-max-bulk-len
  bool before_auth = false;               // the server's much lower limits until AUTH
};

class RequestScanner {
 public:
  // Scans the frame that starts at bytes[0]; when incomplete, call again with the same frame grown.
  // The bytes may move between calls; those already scanned must not change.
  ScanStatus scan(std::string_view bytes, const RequestLimits& limits);

  // The same for a usual request that is whole in the buffer: at most nine arguments, each under a
  // hundred bytes. Only on a scanner that was reset, and it need not be reset after. An empty
  // request: it is not usual, or not whole; then scan().
  Request scan_usual(std::string_view bytes);

  // After `complete`: the request; its frame is one that every server reads the same way. An empty
  // one (a blank line, `*0`, `*-1`) has no arguments and is to be ignored. The view is good until
  // the next scan() or reset().
  Request request(std::string_view bytes) const {
    const std::span<const Argument> arguments(arguments_.data(), count_);
    if (rewritten_) [[unlikely]] return {rewritten_frame_, arguments};
    return {bytes.substr(0, position_), arguments};
  }

  // After `complete`: how many input bytes it took.
  std::size_t frame_size() const { return position_; }

  // After `incomplete`: at least this many more bytes are needed.
  std::size_t needed() const { return needed_; }

  // After `error`: the text after "-ERR Protocol error: ", in the server's words.
  const std::string& error() const { return error_; }

  void reset() {
    position_ = count_ = 0;
    counted_ = false;
    if (rewritten_ || !verbatim_ || arguments_.size() > kArgumentsKept) [[unlikely]] reset_rest();
  }

 private:
  // A scanner that once held a huge request gives the memory back at the next reset.
  static constexpr std::size_t kArgumentsKept = 4096;

  enum class Line : std::uint8_t { number, incomplete, invalid, too_long };

  ScanStatus scan_inline(std::string_view bytes);
  ScanStatus scan_count(std::string_view bytes, const RequestLimits& limits);
  ScanStatus scan_arguments(std::string_view bytes, const RequestLimits& limits);
  ScanStatus bulk_line_failed(Line line, std::string_view bytes);
  Line read_number(const char*& p, const char* end, std::int64_t& value);
  Line read_number_slow(const char*& p, const char* end, std::int64_t& value);
  void add_argument(std::size_t offset, std::size_t length);
  void rewrite(std::string_view bytes);
  void reset_rest();
  ScanStatus fail(std::string_view text);
  ScanStatus wait_for(std::size_t more) {
    needed_ = more;
    return ScanStatus::incomplete;
  }

  std::vector<Argument> arguments_{16};  // room; the first `count_` are there
  std::size_t count_ = 0;
  std::string rewritten_frame_;  // of an inline request, or of one with odd line ends
  std::string error_;
  std::uint64_t announced_ = 0;  // arguments the count line announced
  std::size_t position_ = 0;     // bytes of the frame that need no second look
  std::size_t needed_ = 1;
  bool counted_ = false;         // true exactly when the count line was read
  bool rewritten_ = false;       // true exactly when the request is in rewritten_frame_
  bool verbatim_ = true;         // false once a line end was not CRLF; the server does not look
};

// Whether a line ends here.
inline bool is_line_end(const char* p) {
  std::uint16_t pair;  // one load and one compare
  std::memcpy(&pair, p, sizeof(pair));
  return pair == 0x0a0d;
}

// Reads "$<length>\r\n" of one or two digits with one load of eight bytes, which must be readable.
inline bool read_short_bulk_line(const char*& p, unsigned& length) {
  std::uint64_t word;  // little-endian: the first byte is the lowest
  std::memcpy(&word, p, sizeof(word));
  const unsigned first = static_cast<unsigned>(word >> 8 & 0xff) - unsigned{'0'};
  if ((word & 0xffff00ff) == 0x0a0d0024) {  // $d\r\n
    length = first;
    p += 4;
    return first <= 9;
  }
  const unsigned second = static_cast<unsigned>(word >> 16 & 0xff) - unsigned{'0'};
  length = first * 10 + second;
  p += 5;
  return (word & 0xffff0000ff) == 0x0a0d000024 && first - 1 <= 8 && second <= 9;  // $dd\r\n
}

inline Request RequestScanner::scan_usual(std::string_view bytes) {
  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  if (bytes.size() < 14 || begin[0] != '*' || !is_line_end(begin + 2)) return {};
  const unsigned count = static_cast<unsigned>(begin[1]) - unsigned{'0'};
  if (count - 1 > 8) return {};
  const char* p = begin + 4;
  Argument* const arguments = arguments_.data();
  for (unsigned i = 0; i < count; ++i) {
    unsigned length = 0;
    if (end - p < 8 || !read_short_bulk_line(p, length)) return {};
    if (static_cast<std::size_t>(end - p) < std::size_t{length} + 2) return {};
    arguments[i] = {static_cast<std::uint32_t>(p - begin), length};
    p += length;
    if (!is_line_end(p)) return {};
    p += 2;
  }
  return {{begin, static_cast<std::size_t>(p - begin)}, {arguments, count}};
}

}  // namespace penstock::resp
