// Key positions of fixed, movable and optional keys.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/command/key_finder.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "catch.h"
#include "penstock/command/command_table.h"
#include "penstock/resp/request_scanner.h"

namespace penstock::command {
namespace {

using Words = std::vector<std::string>;

// The keys of a command written as in an inline request; {"(invalid)"} when they do not fit.
Words keys_of(const std::string& line) {
  static const CommandTable commands;
  resp::RequestScanner scanner;
  const std::string bytes = line + "\r\n";
  REQUIRE(scanner.scan(bytes, {}) == resp::ScanStatus::complete);
  const resp::Request request = scanner.request(bytes);
  const Command* command = commands.find(request[0]);
  REQUIRE(command != nullptr);
  if (command->subcommand_count > 0 && request.size() > 1) {
    command = commands.find_subcommand(*command, request[1]);
    REQUIRE(command != nullptr);
  }
  std::vector<KeyPosition> keys;
  if (!find_keys(*command, request, keys)) return {"(invalid)"};
  Words words;
  for (const KeyPosition& key : keys) words.emplace_back(request[key.argument]);
  return words;
}

}  // namespace

TEST_CASE("keys at fixed places") {
  CHECK(keys_of("GET a") == Words{"a"});
  CHECK(keys_of("MSET a 1 b 2") == Words{"a", "b"});
  CHECK(keys_of("BITOP AND d a b") == Words{"d", "a", "b"});
  CHECK(keys_of("SMOVE a b m") == Words{"a", "b"});
  CHECK(keys_of("BLPOP a b 0") == Words{"a", "b"});
  CHECK(keys_of("PING") == Words{});
  CHECK(keys_of("SPUBLISH ch m") == Words{"ch"});
}

TEST_CASE("R-03: container commands have their key in argument 2") {
  CHECK(keys_of("OBJECT ENCODING a") == Words{"a"});
  CHECK(keys_of("MEMORY USAGE a SAMPLES 5") == Words{"a"});
  CHECK(keys_of("XINFO STREAM s FULL") == Words{"s"});
  CHECK(keys_of("XGROUP CREATE s g $ MKSTREAM") == Words{"s"});
}

TEST_CASE("a count says how many keys follow") {
  CHECK(keys_of("EVAL script 1 test 123") == Words{"test"});
  CHECK(keys_of("EVAL script 0 a b") == Words{"(invalid)"});  // no keys: any node may run it
  CHECK(keys_of("FCALL f 2 a b c") == Words{"a", "b"});
  CHECK(keys_of("ZUNIONSTORE d 2 a b WEIGHTS 1 2") == Words{"d", "a", "b"});
  CHECK(keys_of("ZINTER 2 a b WITHSCORES") == Words{"a", "b"});
  CHECK(keys_of("LMPOP 2 a b LEFT") == Words{"a", "b"});
  CHECK(keys_of("BLMPOP 0 1 a LEFT") == Words{"a"});
}

TEST_CASE("R-05: a count of keys that makes no sense fits nothing") {
  for (const char* line : {"EVAL s -1", "EVAL s 3 a", "EVAL s x", "EVAL s 99999999999999999999",
                           "ZUNIONSTORE d -2 a b", "ZUNIONSTORE d 2147483647 a", "FCALL f -1"}) {
    CHECK(keys_of(line) == Words{"(invalid)"});
  }
}

TEST_CASE("a count with something behind it is read as the server reads it before it complains") {
  CHECK(keys_of("EVAL s 1x a") == Words{"a"});
  CHECK(keys_of("EVAL s +1 a") == Words{"a"});
  CHECK(keys_of("EVAL s 01 a") == Words{"a"});
  CHECK(keys_of("EVAL s 4294967297 a") == Words{"a"});
  CHECK(keys_of("EVAL s -9223372036854775809 a") == Words{"(invalid)"});
  CHECK(keys_of("EVAL s 9223372036854775808 a") == Words{"(invalid)"});
  CHECK(keys_of("EVAL s \" 1\" a") == Words{"a"});
  CHECK(keys_of("ZUNIONSTORE d 2.5 a b") == Words{"d", "a", "b"});
  CHECK(keys_of("ZINTERSTORE d 0") == Words{"(invalid)"});
}

TEST_CASE("XREAD's options may carry the name of another option") {
  CHECK(keys_of("XREADGROUP GROUP streams block STREAMS a >") == Words{"a"});
  CHECK(keys_of("XREADGROUP GROUP g c NOACK COUNT 1 STREAMS streams >") == Words{"streams"});
  CHECK(keys_of("XREAD STREAMS a b 0") == Words{"(invalid)"});
  CHECK(keys_of("XREAD FOO STREAMS a 0") == Words{"(invalid)"});
}

TEST_CASE("of several destinations of GEORADIUS the last one counts") {
  CHECK(keys_of("GEORADIUS a 1 2 3 km STORE d STOREDIST e") == Words{"a", "e"});
}

TEST_CASE("keys behind a keyword") {
  CHECK(keys_of("XREAD COUNT 2 STREAMS a b 0 0") == Words{"a", "b"});
  CHECK(keys_of("XREADGROUP GROUP g c STREAMS a b > >") == Words{"a", "b"});
  CHECK(keys_of("GEORADIUS a 1 2 3 km STORE d") == Words{"a", "d"});
  CHECK(keys_of("GEORADIUS a 1 2 3 km STOREDIST d") == Words{"a", "d"});
  CHECK(keys_of("GEORADIUS a 1 2 3 km") == Words{"a"});
  CHECK(keys_of("GEORADIUSBYMEMBER a m 3 km STORE d") == Words{"a", "d"});
}

TEST_CASE("SORT and MIGRATE, whose specifications are incomplete") {
  CHECK(keys_of("SORT a") == Words{"a"});
  CHECK(keys_of("SORT a BY w_* GET x_* LIMIT 0 1 STORE d") == Words{"a", "d"});
  CHECK(keys_of("SORT a GET store STORE d") == Words{"a", "d"});
  CHECK(keys_of("SORT a STORE d STORE e") == Words{"a", "e"});
  CHECK(keys_of("SORT_RO a") == Words{"a"});
  CHECK(keys_of("MIGRATE h 1 k 0 5") == Words{"k"});
  CHECK(keys_of("MIGRATE h 1 \"\" 0 5 KEYS a b") == Words{"a", "b"});
}

}  // namespace penstock::command
