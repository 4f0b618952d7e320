// Writes replies in one client's protocol.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/resp/reply_writer.h"

#include <fmt/format.h>

#include <iterator>

namespace penstock::resp {

void ReplyWriter::status(std::string_view text) {
  fmt::format_to(std::back_inserter(out_), "+{}\r\n", text);
}

void ReplyWriter::error(std::string_view text) {
  text = text.substr(0, text.find_last_not_of("\r\n") + 1);
  out_ += '-';
  for (const char c : text) out_ += c == '\r' || c == '\n' ? ' ' : c;
  out_ += "\r\n";
}

void ReplyWriter::integer(std::int64_t value) {
  fmt::format_to(std::back_inserter(out_), ":{}\r\n", value);
}

void ReplyWriter::bulk(std::string_view bytes) {
  header('$', bytes.size());
  out_ += bytes;
  out_ += "\r\n";
}

void ReplyWriter::verbatim(std::string_view text) {
  if (!resp3()) return bulk(text);
  header('=', text.size() + 4);
  out_ += "txt:";
  out_ += text;
  out_ += "\r\n";
}

void ReplyWriter::null() { out_ += resp3() ? "_\r\n" : "$-1\r\n"; }

void ReplyWriter::boolean(bool value) {
  if (!resp3()) return integer(value ? 1 : 0);
  out_ += value ? "#t\r\n" : "#f\r\n";
}

void ReplyWriter::header(char type, std::size_t count) {
  fmt::format_to(std::back_inserter(out_), "{}{}\r\n", type, count);
}

}  // namespace penstock::resp
