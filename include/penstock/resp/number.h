// Numbers as the server reads them: no sign but '-', no leading zeros, no blanks, no overflow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace penstock::resp {

// The server's string2ll: exactly the texts that printing an int64 could give.
inline bool parse_integer(std::string_view text, std::int64_t& value) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return false;
  if (digits[0] == '0' && text.size() > 1) return false;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace penstock::resp
