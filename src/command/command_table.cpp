// Builds the table of commands: a perfect hash over the top-level names.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/command/command_table.h"

#include <algorithm>
#include <bit>

#include "command/command_list.h"
#include "penstock/log/check.h"

namespace penstock::command {
namespace {

constexpr int kSeedsTried = 100000;

bool equal_ignoring_case(std::string_view given, std::string_view lower) {
  return std::equal(given.begin(), given.end(), lower.begin(), lower.end(), [](char a, char b) {
    return a == b || (b >= 'a' && b <= 'z' && (a | 0x20) == b);
  });
}

// 0x20 in every byte that is a lower-case letter.
std::uint64_t letters_of(std::uint64_t word) {
  std::uint64_t mask = 0;
  for (int shift = 0; shift < 64; shift += 8) {
    const auto c = static_cast<char>(word >> shift & 0xff);
    if (c >= 'a' && c <= 'z') mask |= 0x20ULL << shift;
  }
  return mask;
}

bool is_subcommand(const Command& command) {
  return command.name.find('|') != std::string_view::npos;
}

KeyShape shape_of(const Command& command) {
  if (command.key_spec_count == 0) return KeyShape::none;
  const KeySpec& spec = command.key_specs[0];
  const bool one_key = command.key_spec_count == 1 && spec.begin == KeySpec::Begin::index &&
                       spec.find == KeySpec::Find::range && spec.last == 0;
  if (one_key && spec.first == 1) return KeyShape::argument_1;
  if (one_key && spec.first == 2) return KeyShape::argument_2;
  return KeyShape::general;
}

std::uint8_t straight_key_of(const Command& command) {
  if (command.handling != Handling::by_keys || command.subcommand_count > 0) return 0;
  if (command.key_shape == KeyShape::argument_1) return 1;
  return command.key_shape == KeyShape::argument_2 ? 2 : 0;
}

// PFCOUNT is flagged as a read and may write a better estimate into its key.
CacheRole cache_role_of(const Command& command) {
  if (command.cached != Cached::never) return CacheRole::read;
  const bool writes = command.has(kFlagWrite);
  if ((command.categories & kCategoryScripting) != 0 && !command.has(kFlagReadonly)) {
    return command.key_spec_count > 0 ? CacheRole::script : CacheRole::none;
  }
  return writes || command.name == "pfcount" ? CacheRole::write : CacheRole::none;
}

}  // namespace

CommandTable::CommandTable() : CommandTable(generated_commands()) {}

CommandTable::CommandTable(std::span<const Command> commands)
    : commands_(commands.begin(), commands.end()) {
  std::sort(commands_.begin(), commands_.end(),
            [](const Command& a, const Command& b) { return a.name < b.name; });
  for (std::size_t i = 0; i < commands_.size(); ++i) {
    commands_[i].index = static_cast<std::uint16_t>(i);
    commands_[i].key_shape = shape_of(commands_[i]);
    commands_[i].cache_role = cache_role_of(commands_[i]);
  }
  link_subcommands();
  for (Command& each : commands_) each.straight_key = straight_key_of(each);
  CHECK(build_index());
}

const Command* CommandTable::confirm(std::string_view name, const Command& found) {
  return equal_ignoring_case(name, found.name) ? &found : nullptr;
}

// The same for every spelling of a name, as letters are folded first.
std::uint64_t CommandTable::mixed_word(std::string_view name) {
  if (name.size() < 8) return 0;
  std::uint64_t first, last;
  std::memcpy(&first, name.data(), 8);
  std::memcpy(&last, name.data() + name.size() - 8, 8);
  return ((first | kFold) * 0x9e3779b97f4a7c15) ^ (last | kFold);
}

const Command* CommandTable::find_subcommand(const Command& container,
                                             std::string_view name) const {
  for (const Command& each : subcommands(container)) {
    if (equal_ignoring_case(name, each.name.substr(container.name.size() + 1))) return &each;
  }
  return nullptr;
}

const Command* CommandTable::find_full(std::string_view name) const {
  const std::size_t bar = name.find('|');
  const Command* command = find(name.substr(0, bar));
  if (command == nullptr || bar == std::string_view::npos) return command;
  return find_subcommand(*command, name.substr(bar + 1));
}

// Sorting by name puts a container's subcommands ("acl|cat") next to each other.
void CommandTable::link_subcommands() {
  for (const Command& each : commands_) {
    if (!is_subcommand(each)) continue;
    const std::string_view parent = each.name.substr(0, each.name.find('|'));
    for (Command& container : commands_) {
      if (container.name != parent) continue;
      if (container.subcommand_count++ == 0) container.first_subcommand = each.index;
      CHECK(container.first_subcommand + container.subcommand_count == each.index + 1);
    }
  }
}

bool CommandTable::build_index() {
  const auto top_level = static_cast<std::size_t>(
      std::count_if(commands_.begin(), commands_.end(),
                    [](const Command& each) { return !is_subcommand(each); }));
  const std::size_t size = std::bit_ceil(top_level * 16);
  shift_ = 64 - std::countr_zero(size);
  for (int attempt = 1; attempt <= kSeedsTried; ++attempt) {
    seed_ = 0x9e3779b97f4a7c15 * static_cast<std::uint64_t>(attempt) | 1;
    entries_.assign(size, Entry{});
    bool collided = false;
    for (const Command& each : commands_) {
      if (is_subcommand(each)) continue;
      const bool whole = each.name.size() <= 8;
      const std::uint64_t word = word_of(each.name);
      Entry& entry = entries_[place_of(word, each.name.size())];
      collided = collided || entry.command != nullptr;
      entry = {word, whole ? letters_of(word) : 0, each.name.size(), &each};
    }
    if (!collided) return true;
  }
  return false;
}

}  // namespace penstock::command
