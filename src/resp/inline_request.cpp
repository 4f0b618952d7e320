// Splits an inline request into words as sds.c's sdssplitargs does, and frames them.
// SPDX-License-Identifier: Apache-2.0
#include "resp/inline_request.h"

#include <optional>

namespace penstock::resp {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// What ends an unquoted word; the server does not count \v and \f here.
bool ends_word(char c) {
  return c == '\0' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char escaped(char c) {
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
  }
}

class WordReader {
 public:
  explicit WordReader(std::string_view line) : line_(line) {}

  // A NUL ends the line, as it ends the server's C string.
  bool at_end() {
    while (position_ < line_.size() && is_space(line_[position_])) ++position_;
    return peek() == '\0';
  }

  std::optional<std::string> read() {
    std::string word;
    while (true) {
      const char c = peek();
      if (ends_word(c)) return word;
      ++position_;
      if (c != '"' && c != '\'') {
        word.push_back(c);
      } else if (!(c == '"' ? read_double_quoted(word) : read_single_quoted(word))) {
        return std::nullopt;
      } else {
        return word;
      }
    }
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return position_ + ahead < line_.size() ? line_[position_ + ahead] : '\0';
  }

  // A closing quote must be followed by a space or the end.
  bool closed() const { return peek() == '\0' || is_space(peek()); }

  bool read_double_quoted(std::string& word) {
    while (true) {
      const char c = peek();
      if (c == '\0') return false;
      if (c == '\\' && peek(1) == 'x' && hex_digit(peek(2)) >= 0 && hex_digit(peek(3)) >= 0) {
        word.push_back(static_cast<char>(hex_digit(peek(2)) * 16 + hex_digit(peek(3))));
        position_ += 4;
      } else if (c == '\\' && peek(1) != '\0') {
        word.push_back(escaped(peek(1)));
        position_ += 2;
      } else {
        ++position_;
        if (c == '"') return closed();
        word.push_back(c);
      }
    }
  }

  bool read_single_quoted(std::string& word) {
    while (true) {
      const char c = peek();
      if (c == '\0') return false;
      if (c == '\\' && peek(1) == '\'') {
        word.push_back('\'');
        position_ += 2;
        continue;
      }
      ++position_;
      if (c == '\'') return closed();
      word.push_back(c);
    }
  }

  std::string_view line_;
  std::size_t position_ = 0;
};

}  // namespace

bool frame_inline_request(std::string_view line, std::string& frame,
                          std::vector<Argument>& arguments) {
  std::vector<std::string> words;
  for (WordReader reader(line); !reader.at_end();) {
    std::optional<std::string> word = reader.read();
    if (!word) return false;
    words.push_back(std::move(*word));
  }
  frame.clear();
  arguments.clear();
  if (words.empty()) return true;
  frame = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    frame += "$" + std::to_string(word.size()) + "\r\n";
    arguments.push_back({static_cast<std::uint32_t>(frame.size()),
                         static_cast<std::uint32_t>(word.size())});
    frame += word + "\r\n";
  }
  return true;
}

}  // namespace penstock::resp
