// Replies parsed into trees.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/resp/reply_value.h"

#include "catch.h"
#include "penstock/resp/reply_writer.h"

namespace penstock::resp {

TEST_CASE("a nested reply becomes a tree") {
  const auto value = parse_reply("*3\r\n:5\r\n$2\r\nab\r\n%1\r\n+k\r\n*1\r\n_\r\n");
  REQUIRE(value.has_value());
  REQUIRE(value->elements.size() == 3);
  CHECK(value->elements[0].integer == 5);
  CHECK(value->elements[1].text == "ab");
  const ReplyValue* found = value->elements[2].find("k");
  REQUIRE(found != nullptr);
  CHECK(found->elements[0].type == '_');
  CHECK(value->elements[2].find("other") == nullptr);
}

TEST_CASE("what is malformed, too deep or followed by bytes gives nothing") {
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += "*1\r\n";
  for (const std::string& text : {std::string("*2\r\n:1\r\n"), std::string("$5\r\nab\r\n"),
                                  std::string(":1\r\n:2\r\n"), deep + ":1\r\n", std::string(),
                                  std::string("*1000000\r\n"), std::string("$-5\r\n")}) {
    CHECK_FALSE(parse_reply(text).has_value());
  }
}

TEST_CASE("a writer speaks each client's protocol") {
  const auto written = [](Protocol protocol) {
    std::string out;
    ReplyWriter writer(out, protocol);
    writer.map(1);
    writer.bulk("k");
    writer.null();
    writer.set(1);
    writer.boolean(true);
    writer.verbatim("x");
    writer.error("ERR two\r\nlines");
    return out;
  };
  CHECK(written(Protocol::resp2) ==
        "*2\r\n$1\r\nk\r\n$-1\r\n*1\r\n:1\r\n$1\r\nx\r\n-ERR two  lines\r\n");
  CHECK(written(Protocol::resp3) ==
        "%1\r\n$1\r\nk\r\n_\r\n~1\r\n#t\r\n=5\r\ntxt:x\r\n-ERR two  lines\r\n");
}

}  // namespace penstock::resp
