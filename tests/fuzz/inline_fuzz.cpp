// Inline requests: the words that the server's own splitting gives, and a frame that holds them.
// The model below is sds.c's sdssplitargs, state by state, over a text that ends with a NUL.
// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "exact_buffer.h"
#include "mutate.h"
#include "penstock/resp/request_scanner.h"
#include "require.h"
#include "resp/inline_request.h"
#include "resp_grammar.h"

namespace penstock::fuzz {
namespace {

using Words = std::vector<std::string>;
using resp::Argument;

class Model {
 public:
  explicit Model(std::string_view line) : text_(line) {}

  std::optional<Words> split() {
    Words words;
    while (true) {
      while (is_space(at(0))) ++position_;
      if (at(0) == '\0') return words;
      std::string word;
      if (!read_word(word)) return std::nullopt;
      words.push_back(std::move(word));
    }
  }

 private:
  enum class State { bare, in_double, in_single, done, failed };

  static bool is_space(char c) { return c != '\0' && std::strchr(" \t\n\v\f\r", c) != nullptr; }
  static bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

  char at(std::size_t ahead) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }

  bool read_word(std::string& word) {
    State state = State::bare;
    while (state != State::done) {
      switch (state) {
        case State::bare: state = read_bare(word); break;
        case State::in_double: state = read_double(word); break;
        case State::in_single: state = read_single(word); break;
        default: return false;
      }
      if (at(0) != '\0') ++position_;
    }
    return true;
  }

  State read_bare(std::string& word) {
    const char c = at(0);
    if (c == '\0' || std::strchr(" \n\r\t", c) != nullptr) return State::done;
    if (c == '"') return State::in_double;
    if (c == '\'') return State::in_single;
    word += c;
    return State::bare;
  }

  State read_double(std::string& word) {
    if (at(0) == '\\' && at(1) == 'x' && is_hex(at(2)) && is_hex(at(3))) {
      word += static_cast<char>(std::stoi(std::string{at(2), at(3)}, nullptr, 16));
      position_ += 3;
    } else if (at(0) == '\\' && at(1) != '\0') {
      ++position_;
      const char* const found = std::strchr("nrtba", at(0));
      word += found == nullptr ? at(0) : "\n\r\t\b\a"[found - std::strchr("nrtba", 'n')];
    } else if (at(0) == '"') {
      return at(1) != '\0' && !is_space(at(1)) ? State::failed : State::done;
    } else if (at(0) == '\0') {
      return State::failed;
    } else {
      word += at(0);
    }
    return State::in_double;
  }

  State read_single(std::string& word) {
    if (at(0) == '\\' && at(1) == '\'') {
      ++position_;
      word += '\'';
    } else if (at(0) == '\'') {
      return at(1) != '\0' && !is_space(at(1)) ? State::failed : State::done;
    } else if (at(0) == '\0') {
      return State::failed;
    } else {
      word += at(0);
    }
    return State::in_single;
  }

  std::string text_;
  std::size_t position_ = 0;
};

Words words_in(std::string_view frame, const std::vector<Argument>& arguments) {
  Words words;
  for (const Argument& each : arguments) {
    REQUIRE(each.offset + each.length <= frame.size());
    words.emplace_back(frame.substr(each.offset, each.length));
  }
  return words;
}

std::string frame_of(const Words& words) {
  if (words.empty()) return {};
  std::string frame = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    frame += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return frame;
}

void check_line(std::string_view line) {
  const std::optional<Words> wanted = Model(line).split();
  const ExactBuffer buffer(line);
  std::string frame;
  std::vector<Argument> arguments;
  const bool good = resp::frame_inline_request(buffer.view(), frame, arguments);
  REQUIRE(good == wanted.has_value());
  if (!good) return;
  REQUIRE(words_in(frame, arguments) == *wanted);
  REQUIRE(frame == frame_of(*wanted));
}

// The scanner finds the same in a line with an end, unless the line looks like an array.
void check_scanner(std::string_view line) {
  if (line.starts_with('*') || line.find('\n') != std::string_view::npos) return;
  const std::optional<Words> wanted =
      Model(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line).split();
  const ExactBuffer buffer(std::string(line) + "\nPING\r\n");
  resp::RequestScanner scanner;
  const resp::ScanStatus status = scanner.scan(buffer.view(), {});
  REQUIRE((status == resp::ScanStatus::complete) == wanted.has_value());
  if (!wanted) return;
  REQUIRE(scanner.frame_size() == line.size() + 1);
  const resp::Request request = scanner.request(buffer.view());
  REQUIRE(request.size() == wanted->size());
  if (!wanted->empty()) REQUIRE(request.frame() == frame_of(*wanted));
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  penstock::fuzz::check_line(line);
  penstock::fuzz::check_scanner(line);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return penstock::fuzz::mutate(data, size, max_size, seed, 0, [](penstock::fuzz::Random& random) {
    std::string line = penstock::fuzz::random_inline_line(random);
    line.resize(line.find_last_not_of("\r\n") + 1);
    return line;
  });
}
