// Random but well-formed RESP, with the names of the command table.
// SPDX-License-Identifier: Apache-2.0
#include "resp_grammar.h"

#include <cctype>
#include <cstdlib>

#include "penstock/command/command_table.h"

namespace penstock::fuzz {
namespace {

const std::string_view kWords[] = {
    "",         "k",      "key:1", "{tag}a",  "{tag}b",  "{}",    "0",       "1",     "-1",  "2",
    "10",       "100",    "*",     "$",       "COUNT",   "MATCH", "STREAMS", "BLOCK", "GET", "NX",
    "EX",       "KEYS",   "STORE", "WEIGHTS", "LIMIT",   "BY",    "ASC",     "-",     "+",   "(1",
    "-inf",     "3.14",   "$-1",   "\r\n",    "a\r\nb",  "\"",    "'",       "\\x41", "a b", "\xff",
    "16383",    "16384",  "99999999999999999999", "9223372036854775807", "-9223372036854775808"};

const char kSimpleTypes[] = {'+', '-', ':', ',', '#', '_', '('};
const char kBulkTypes[] = {'$', '=', '!'};
const char kSequenceTypes[] = {'*', '~', '>', '%', '|'};

template <typename T, std::size_t N>
const T& pick(Random& random, const T (&from)[N]) {
  return from[below(random, N)];
}

std::string bulk(std::string_view bytes) {
  return "$" + std::to_string(bytes.size()) + "\r\n" + std::string(bytes) + "\r\n";
}

std::string random_word(Random& random) {
  if (below(random, 8) == 0) return std::string(below(random, 200), 'v');
  return std::string(pick(random, kWords));
}

std::string random_case(Random& random, std::string_view name) {
  std::string word(name);
  if (below(random, 2) == 0) {
    for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return word;
}

std::string quoted(Random& random, std::string_view word) {
  switch (below(random, 4)) {
    case 0: return "\"" + std::string(word) + "\"";
    case 1: return "'" + std::string(word) + "'";
    case 2: return "\"\\x0" + std::to_string(below(random, 10)) + "\\n\"";
    default: return std::string(word);
  }
}

std::string simple_text(Random& random, char type) {
  switch (type) {
    case '_': return "";
    case '#': return below(random, 2) == 0 ? "t" : "f";
    case '-': return "MOVED " + std::to_string(below(random, 16384)) + " 127.0.0.1:7000";
    case '+': return "OK";
    default: return std::to_string(below(random, 1000));
  }
}

std::string random_sequence(Random& random, int depth) {
  const char type = pick(random, kSequenceTypes);
  const std::size_t count = below(random, 4);
  std::size_t elements = type == '%' || type == '|' ? 2 * count : count;
  std::string reply = type + std::to_string(count) + "\r\n";
  if (type == '|') ++elements;  // the value that it describes
  for (; elements > 0; --elements) reply += random_reply(random, depth - 1);
  return reply;
}

}  // namespace

std::size_t below(Random& random, std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
}

std::vector<std::string> random_command(Random& random) {
  static const command::CommandTable table;
  const command::Command& command = table.all()[below(random, table.all().size())];
  std::vector<std::string> words;
  const std::string_view name = command.name;
  const std::size_t bar = name.find('|');
  words.push_back(random_case(random, name.substr(0, bar)));
  if (bar != std::string_view::npos) words.push_back(random_case(random, name.substr(bar + 1)));
  std::size_t wanted = static_cast<std::size_t>(std::abs(command.arity));
  if (command.arity < 0 || below(random, 8) == 0) wanted += below(random, 6);
  while (words.size() < wanted) words.push_back(random_word(random));
  return words;
}

std::string random_request(Random& random) {
  const std::vector<std::string> words = random_command(random);
  std::string frame = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) frame += bulk(word);
  return frame;
}

std::string random_inline_line(Random& random) {
  std::string line;
  for (const std::string& word : random_command(random)) {
    line += quoted(random, word) + (below(random, 8) == 0 ? "\t " : " ");
  }
  return line + (below(random, 4) == 0 ? "\n" : "\r\n");
}

std::string random_reply(Random& random, int depth) {
  const std::size_t kind = below(random, depth > 0 ? 4 : 2);
  if (kind >= 2) return random_sequence(random, depth);
  if (kind == 0) {
    const char type = pick(random, kSimpleTypes);
    return type + simple_text(random, type) + "\r\n";
  }
  if (below(random, 6) == 0) return below(random, 2) == 0 ? "$-1\r\n" : "*-1\r\n";
  std::string reply = bulk(random_word(random));
  reply[0] = pick(random, kBulkTypes);
  return reply;
}

}  // namespace penstock::fuzz
