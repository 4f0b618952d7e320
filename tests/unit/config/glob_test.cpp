// The server's glob patterns.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/config/glob.h"
#include "catch.h"

namespace penstock::config {

TEST_CASE("patterns match as the server's do") {
  CHECK(matches_glob("*", ""));
  CHECK(matches_glob("*", "anything"));
  CHECK(matches_glob("max*", "MaxMemory"));
  CHECK(matches_glob("m?x", "max"));
  CHECK(matches_glob("m[a-c]x", "mbx"));
  CHECK(matches_glob("m[^a-c]x", "mdx"));
  CHECK(matches_glob("m[c-a]x", "mbx"));
  CHECK(matches_glob("a\\*b", "a*b"));
  CHECK(matches_glob("*a*b*", "xxaxxbxx"));
  CHECK_FALSE(matches_glob("m[^a-c]x", "mbx"));
  CHECK_FALSE(matches_glob("a\\*b", "axb"));
  CHECK_FALSE(matches_glob("", "x"));
  CHECK_FALSE(matches_glob("?", ""));
  CHECK_FALSE(matches_glob("*ab", "abx"));
}

TEST_CASE("a pattern of many stars takes no time") {
  const std::string pattern(1000, '*');
  CHECK_FALSE(matches_glob(pattern + "b", std::string(10'000, 'a')));
  std::string alternating;
  for (int i = 0; i < 50; ++i) alternating += "a*";
  CHECK_FALSE(matches_glob(alternating + "b", std::string(10'000, 'a')));
}

}  // namespace penstock::config
