// Finds the end and the arguments of one request frame, incrementally and without reading payloads.
// Owned by a session (or shared by a worker's sessions between frames); one thread.
// Rules: redis.io/docs/reference/protocol-spec and the server's own limits and error texts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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

  // After `complete`: the request; its frame is one that every server reads the same way. An empty
  // one (a blank line, `*0`, `*-1`) has no arguments and is to be ignored. The view is good until
  // the next scan() or reset().
  Request request(std::string_view bytes) const;

  // After `complete`: how many input bytes it took.
  std::size_t frame_size() const { return position_; }

  // After `incomplete`: at least this many more bytes are needed.
  std::size_t needed() const { return needed_; }

  // After `error`: the text after "-ERR Protocol error: ", in the server's words.
  const std::string& error() const { return error_; }

  void reset();

 private:
  enum class Line : std::uint8_t { number, incomplete, invalid, too_long };

  ScanStatus scan_inline(std::string_view bytes);
  ScanStatus scan_count(std::string_view bytes, const RequestLimits& limits);
  ScanStatus scan_arguments(std::string_view bytes, const RequestLimits& limits);
  ScanStatus bulk_line_failed(Line line, char first);
  Line read_number(const char*& p, const char* end, std::int64_t& value);
  Line read_number_slow(const char*& p, const char* end, std::int64_t& value);
  void rewrite(std::string_view bytes);
  ScanStatus fail(std::string_view text);
  ScanStatus wait_for(std::size_t more) {
    needed_ = more;
    return ScanStatus::incomplete;
  }

  std::vector<Argument> arguments_;
  std::string rewritten_frame_;  // of an inline request, or of one with odd line ends
  std::string error_;
  std::uint64_t announced_ = 0;  // arguments the count line announced
  std::size_t position_ = 0;     // bytes of the frame that need no second look
  std::size_t needed_ = 1;
  bool counted_ = false;         // true exactly when the count line was read
  bool rewritten_ = false;       // true exactly when the request is in rewritten_frame_
  bool verbatim_ = true;         // false once a line end was not CRLF; the server does not look
};

}  // namespace penstock::resp
