// Writes replies in one client's protocol: RESP3 types, or what the server sends for them in RESP2.
// Appends to a string it does not own; no state but the protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::resp {

enum class Protocol : std::uint8_t { resp2 = 2, resp3 = 3 };

// What the server shows of an argument in an error's text: printf's "%s", which ends at a NUL.
inline std::string_view shown(std::string_view argument,
                              std::size_t most = std::string_view::npos) {
  return argument.substr(0, std::min(argument.find('\0'), most));
}

class ReplyWriter {
 public:
  ReplyWriter(std::string& out, Protocol protocol) : out_(out), protocol_(protocol) {}

  Protocol protocol() const { return protocol_; }
  void switch_to(Protocol protocol) { protocol_ = protocol; }

  void status(std::string_view text);
  // `text` starts with the error's code, e.g. "ERR no such thing". As the server does, line ends
  // inside become spaces and those at the end go.
  void error(std::string_view text);
  void integer(std::int64_t value);
  void bulk(std::string_view bytes);
  void verbatim(std::string_view text);  // a txt verbatim string; RESP2: a bulk
  void null();                           // RESP2: a null bulk
  void boolean(bool value);              // RESP2: 0 or 1
  void array(std::size_t elements) { header('*', elements); }
  void set(std::size_t elements) { header(resp3() ? '~' : '*', elements); }
  void map(std::size_t pairs) { resp3() ? header('%', pairs) : header('*', 2 * pairs); }

 private:
  bool resp3() const { return protocol_ == Protocol::resp3; }
  void header(char type, std::size_t count);

  std::string& out_;
  Protocol protocol_;
};

}  // namespace penstock::resp
