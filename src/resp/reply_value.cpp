// Parses a reply frame into a tree.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/resp/reply_value.h"

#include "penstock/resp/number.h"

namespace penstock::resp {
namespace {

constexpr int kDepthMax = 16;  // CLUSTER SHARDS nests five deep

class Parser {
 public:
  explicit Parser(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }

  bool parse(ReplyValue& value, int depth) {
    std::string_view line;
    if (depth > kDepthMax || !take_line(line) || line.empty()) return false;
    value.type = line[0];
    line.remove_prefix(1);
    switch (value.type) {
      case '+': case '-': case ',': case '(': value.text = line; return true;
      case '_': return true;
      case '#': value.integer = line == "t" ? 1 : 0; return true;
      case ':': return parse_integer(line, value.integer);
      case '$': case '=': case '!': return parse_bulk(line, value);
      case '*': case '~': case '>': case '%': return parse_elements(line, value, depth);
      default: return false;
    }
  }

 private:
  bool take_line(std::string_view& line) {
    const std::size_t end = rest_.find("\r\n");
    if (end == std::string_view::npos) return false;
    line = rest_.substr(0, end);
    rest_.remove_prefix(end + 2);
    return true;
  }

  bool parse_bulk(std::string_view line, ReplyValue& value) {
    std::int64_t length = 0;
    if (!parse_integer(line, length)) return false;
    if (length == -1) {
      value.type = '_';
      return true;
    }
    if (length < 0 || rest_.size() < 2 || static_cast<std::size_t>(length) > rest_.size() - 2) {
      return false;
    }
    value.text = rest_.substr(0, static_cast<std::size_t>(length));
    if (value.type == '=') value.text.remove_prefix(std::min<std::size_t>(4, value.text.size()));
    if (rest_.substr(static_cast<std::size_t>(length), 2) != "\r\n") return false;
    rest_.remove_prefix(static_cast<std::size_t>(length) + 2);
    return true;
  }

  bool parse_elements(std::string_view line, ReplyValue& value, int depth) {
    std::int64_t count = 0;
    if (!parse_integer(line, count)) return false;
    if (count == -1) {
      value.type = '_';
      return true;
    }
    // Every element takes three bytes or more, so a count beyond that is a lie.
    if (count < 0 || static_cast<std::uint64_t>(count) > rest_.size()) return false;
    if (value.type == '%') count *= 2;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!parse(value.elements.emplace_back(), depth + 1)) return false;
    }
    return true;
  }

  std::string_view rest_;
};

}  // namespace

const ReplyValue* ReplyValue::find(std::string_view key) const {
  for (std::size_t i = 0; i + 1 < elements.size(); i += 2) {
    if (elements[i].is_text() && elements[i].text == key) return &elements[i + 1];
  }
  return nullptr;
}

std::optional<ReplyValue> parse_reply(std::string_view frame) {
  Parser parser(frame);
  ReplyValue value;
  if (!parser.parse(value, 0) || !parser.at_end()) return std::nullopt;
  return value;
}

}  // namespace penstock::resp
