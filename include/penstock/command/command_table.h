// Every command the proxy knows, found by name in any case with one probe and one exact compare.
// Immutable once built; read by every thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "penstock/command/command.h"

namespace penstock::command {

class CommandTable {
 public:
  // The table of data/command-info, joined with data/command-policy.toml.
  CommandTable();
  explicit CommandTable(std::span<const Command> commands);

  // A top-level command by its name, or null.
  const Command* find(std::string_view name) const;
  // A subcommand of a container, or null.
  const Command* find_subcommand(const Command& container, std::string_view name) const;
  // A command by its full name, "get" or "config|get", or null.
  const Command* find_full(std::string_view name) const;

  // All of them, sorted by name; a command's `index` is its position here.
  std::span<const Command> all() const { return commands_; }
  std::span<const Command> subcommands(const Command& container) const {
    return all().subspan(container.first_subcommand, container.subcommand_count);
  }

 private:
  // A name as two words that cover it (and overlap when it is shorter than 16 bytes).
  struct Words {
    std::uint64_t front, back;
  };
  struct Entry {
    Words name, letters;  // letters: 0x20 exactly where the name has a letter
    const Command* command = nullptr;
  };
  static constexpr std::uint64_t kFold = 0x2020202020202020;  // lower case, for letters

  static Words words_of(std::string_view name);
  std::size_t place_of(const Words& words, std::size_t length) const {
    const std::uint64_t mixed =
        (words.front | kFold) * 0x9e3779b97f4a7c15 + ((words.back | kFold) ^ length) * seed_;
    return mixed >> shift_;
  }
  void link_subcommands();
  bool build_index();

  std::vector<Command> commands_;
  std::vector<Entry> entries_;  // a perfect hash: every name is in its own place
  std::uint64_t seed_ = 0;
  int shift_ = 64;
};

inline CommandTable::Words CommandTable::words_of(std::string_view name) {
  const char* p = name.data();
  const std::size_t n = name.size();
  if (n >= 8) {
    Words words;
    std::memcpy(&words.front, p, 8);
    std::memcpy(&words.back, p + n - 8, 8);
    return words;
  }
  std::uint64_t word = 0;
  if (n >= 4) {
    std::uint32_t front = 0, back = 0;
    std::memcpy(&front, p, 4);
    std::memcpy(&back, p + n - 4, 4);
    word = front | static_cast<std::uint64_t>(back) << 32;
  } else if (n > 0) {
    const auto at = [p](std::size_t i) {
      return static_cast<std::uint64_t>(static_cast<unsigned char>(p[i]));
    };
    word = at(0) | at(n / 2) << 8 | at(n - 1) << 16;
  }
  return {word, word};
}

}  // namespace penstock::command
