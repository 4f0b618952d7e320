// Reads the pushes of a node that tracks keys. Frames are whole and well-formed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstddef>
#include <string_view>

namespace penstock::cache {

// Takes a line off the front, without its end.
inline std::string_view next_line(std::string_view& bytes) {
  const std::size_t end = bytes.find("\r\n");
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end + 2);
  return line;
}

// Takes a bulk string off the front: its content. Empty, and nothing left, when there is none.
inline std::string_view next_bulk(std::string_view& bytes) {
  const std::string_view line = next_line(bytes);
  std::size_t length = 0;
  std::from_chars(line.data() + 1, line.data() + line.size(), length);
  const std::string_view content = bytes.substr(0, length);
  bytes.remove_prefix(length + 2);
  return content;
}

// What follows the name in a push of the kind "invalidate"; empty for any other push.
inline std::string_view invalidated_keys(std::string_view frame) {
  constexpr std::string_view kName = ">2\r\n$10\r\ninvalidate\r\n";
  return frame.starts_with(kName) ? frame.substr(kName.size()) : std::string_view();
}

}  // namespace penstock::cache
