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
  const Command* find(std::string_view name) const { return find(name, word_of(name)); }
  // The same for a name that lies in a request's frame, which has eight bytes before it.
  const Command* find_in_frame(std::string_view name) const {
    return find(name, word_in_frame(name));
  }
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
  // One place of a perfect hash. A name of up to eight bytes is one word. A longer one is mixed
  // into one from its first and last eight bytes, and compared when it was found.
  struct Entry {
    std::uint64_t word = 0, letters = 0;  // letters: 0x20 exactly where the word has a letter
    std::size_t length = SIZE_MAX;        // of no name where there is none
    const Command* command = nullptr;
  };
  static constexpr std::uint64_t kFold = 0x2020202020202020;  // lower case, for letters

  static std::uint64_t word_in_frame(std::string_view name);
  static std::uint64_t word_of(std::string_view name);
  static std::uint64_t mixed_word(std::string_view name);
  const Command* find(std::string_view name, std::uint64_t word) const;
  static const Command* confirm(std::string_view name, const Command& found);

  std::size_t place_of(std::uint64_t word, std::size_t length) const {
    return (((word | kFold) + length) * seed_) >> shift_;
  }
  void link_subcommands();
  bool build_index();

  std::vector<Command> commands_;
  std::vector<Entry> entries_;  // every name is in its own place
  std::uint64_t seed_ = 0;
  int shift_ = 64;
};

// One load that ends where the name ends; what is before a short name is shifted out.
inline std::uint64_t CommandTable::word_in_frame(std::string_view name) {
  if (name.size() > 8 || name.empty()) [[unlikely]] return mixed_word(name);
  std::uint64_t word;
  std::memcpy(&word, name.data() + name.size() - 8, 8);
  return word >> (64 - 8 * name.size());
}

inline std::uint64_t CommandTable::word_of(std::string_view name) {
  if (name.size() > 8 || name.empty()) return mixed_word(name);
  std::uint64_t word = 0;
  std::memcpy(&word, name.data(), name.size());
  return word;
}

inline const Command* CommandTable::find(std::string_view name, std::uint64_t word) const {
  const Entry& entry = entries_[place_of(word, name.size())];
  const bool same = ((word ^ entry.word) & ~entry.letters) == 0 && entry.length == name.size();
  if (!same) [[unlikely]] return nullptr;
  return name.size() <= 8 ? entry.command : confirm(name, *entry.command);
}

}  // namespace penstock::command
