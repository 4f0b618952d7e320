// Mutations on lines: what separates frames, headers and settings in every text fuzzed here.
// SPDX-License-Identifier: Apache-2.0
#include "mutate.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace penstock::fuzz {
namespace {

const std::string_view kNumbers[] = {"0", "-1", "-2", "1", "01", "+1", "", "9", "10", "99", "100",
                                     "1024", "16384", "65536", "1048577", "536870912",
                                     "536870913", "2147483647", "2147483648", "1099511627777",
                                     "9223372036854775807", "18446744073709551616"};

// The start of a line, chosen at random; `from` when there is no other.
std::size_t random_line(const std::string& text, std::size_t from, Random& random) {
  const std::size_t newline = text.find('\n', from + below(random, text.size() - from + 1));
  return newline == std::string::npos ? from : newline + 1;
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Another number in the place of one: a neighbour, or one from the list.
void change_number(std::string& text, std::size_t from, Random& random) {
  std::size_t at = std::min(from + below(random, text.size() - from + 1), text.size());
  while (at < text.size() && !is_digit(text[at])) ++at;
  if (at == text.size()) return;
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string number(kNumbers[below(random, std::size(kNumbers))]);
  if (end - at < 9 && below(random, 2) == 0) {
    const unsigned long value = std::stoul(text.substr(at, end - at));
    number = std::to_string(below(random, 2) == 0 ? value + 1 : value - std::min(value, 1UL));
  }
  text.replace(at, end - at, number);
}

void remove_lines(std::string& text, std::size_t from, Random& random) {
  const std::size_t first = random_line(text, from, random);
  const std::size_t last = random_line(text, first, random);
  text.erase(first, last - first);
}

void repeat_lines(std::string& text, std::size_t from, Random& random) {
  const std::size_t first = random_line(text, from, random);
  const std::size_t last = random_line(text, first, random);
  text.insert(random_line(text, from, random), text.substr(first, last - first));
}

}  // namespace

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                   std::size_t header, const std::function<std::string(Random&)>& piece) {
  Random random(seed);
  const std::size_t choice = below(random, 8);
  if (size < header || choice >= 5) return LLVMFuzzerMutate(data, size, max_size);
  std::string text(reinterpret_cast<const char*>(data), size);
  switch (choice) {
    case 0: text += piece(random); break;
    case 1: text.insert(random_line(text, header, random), piece(random)); break;
    case 2: change_number(text, header, random); break;
    case 3: remove_lines(text, header, random); break;
    default: repeat_lines(text, header, random); break;
  }
  const std::size_t kept = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), kept);
  return kept;
}

}  // namespace penstock::fuzz
