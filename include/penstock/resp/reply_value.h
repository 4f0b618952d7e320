// A reply parsed into a tree, for the few places that look inside one (topology, tests).
// Not for the data path. Bounded in depth and in elements; views into the frame.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace penstock::resp {

struct ReplyValue {
  char type = '_';                    // the RESP type byte; '_' for every null
  std::int64_t integer = 0;           // ':' and '#'
  std::string_view text;              // '+', '-', '$', '=', '!', ',', '('
  std::vector<ReplyValue> elements;   // '*', '~', '>', and '%' as key, value, key, value

  bool is_error() const { return type == '-' || type == '!'; }
  bool is_text() const { return type == '$' || type == '+' || type == '='; }
  bool is_sequence() const { return type == '*' || type == '~' || type == '>' || type == '%'; }

  // The value of a map (or of a RESP2 array of pairs) under a text key; null when there is none.
  const ReplyValue* find(std::string_view key) const;
};

// Parses one whole frame; none when it is malformed, too deep or followed by more bytes.
std::optional<ReplyValue> parse_reply(std::string_view frame);

}  // namespace penstock::resp
