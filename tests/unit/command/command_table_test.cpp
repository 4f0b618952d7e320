// Finding commands by name.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/command/command_table.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "catch.h"
#include "exact_buffer.h"
#include "penstock/stats/worker_stats.h"

namespace penstock::command {
namespace {

const CommandTable& table() {
  static const CommandTable commands;
  return commands;
}

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

// Looks the name up both ways: alone in a buffer of its size, and at the end of a frame.
const Command* find_exact(std::string_view name) {
  const Command* alone = table().find(ExactBuffer(name).view());
  const ExactBuffer frame("*1\r\n$1\r\n" + std::string(name));
  CHECK(table().find_in_frame(frame.view().substr(8)) == alone);
  return alone;
}

}  // namespace

TEST_CASE("every command is found in any case") {
  for (const Command& command : table().all()) {
    REQUIRE(table().find_full(command.name) == &command);
    if (command.name.find('|') != std::string_view::npos) continue;
    REQUIRE(find_exact(command.name) == &command);
    REQUIRE(find_exact(upper(command.name)) == &command);
    std::string mixed = upper(command.name);
    mixed[0] = command.name[0];
    REQUIRE(find_exact(mixed) == &command);
  }
  CHECK(table().all().size() < stats::kCommandsMax);
}

TEST_CASE("a name that is no command finds nothing") {
  for (const char* name : {"", "x", "get ", "gett", "ge", "GET\r", "g\x45\x14", "nosuchcommand",
                           "zremrangebyscorex", "georadiusbymember_rx", "\x07\x05\x14",
                           "bitfield\x7fro", "set\x20", "averyveryverylongnameindeed"}) {
    CHECK(find_exact(name) == nullptr);
  }
}

TEST_CASE("only letters are folded") {
  // '@' and '`' differ by the bit that folds letters, and so do control characters and digits.
  std::string name = "hget";
  for (std::size_t i = 0; i < name.size(); ++i) {
    for (int c = 0; c < 256; ++c) {
      std::string other = name;
      other[i] = static_cast<char>(c);
      const bool same = std::tolower(c) == name[i];
      if (find_exact(other) != nullptr && !same) {
        CHECK(find_exact(other)->name.size() == name.size());
        CHECK(std::isalpha(c));
      }
    }
  }
}

TEST_CASE("containers have their subcommands") {
  const Command* config = table().find("CONFIG");
  REQUIRE(config != nullptr);
  CHECK(config->handling == Handling::container);
  CHECK(table().find_subcommand(*config, "GET")->name == "config|get");
  CHECK(table().find_subcommand(*config, "nope") == nullptr);
  CHECK(table().find_full("cluster|countkeysinslot")->handling == Handling::slot_argument);
}

TEST_CASE("arity counts the name") {
  CHECK(table().find("get")->takes(2));
  CHECK_FALSE(table().find("get")->takes(3));
  CHECK(table().find("set")->takes(3));
  CHECK(table().find("set")->takes(9));
  CHECK_FALSE(table().find("set")->takes(2));
}

TEST_CASE("nearly all commands with keys need no interpreter to find them") {
  CHECK(table().find("get")->key_shape == KeyShape::argument_1);
  CHECK(table().find("set")->key_shape == KeyShape::argument_1);
  CHECK(table().find_full("object|encoding")->key_shape == KeyShape::argument_2);
  CHECK(table().find("eval")->key_shape == KeyShape::general);
  CHECK(table().find("ping")->key_shape == KeyShape::none);
}

}  // namespace penstock::command
