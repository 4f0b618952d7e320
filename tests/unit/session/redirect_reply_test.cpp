// Refusals and where they point.
// SPDX-License-Identifier: Apache-2.0
#include "session/redirect_reply.h"

#include "catch.h"

namespace penstock::session {

TEST_CASE("a refusal is known by its code") {
  CHECK(refusal_of("-MOVED 1 h:1\r\n", false) == Refusal::moved);
  CHECK(refusal_of("-ASK 1 h:1\r\n", false) == Refusal::ask);
  CHECK(refusal_of("-TRYAGAIN whatever\r\n", false) == Refusal::tryagain);
  CHECK(refusal_of("-LOADING x\r\n", false) == Refusal::loading);
  CHECK(refusal_of("-ERR MOVED\r\n", false) == Refusal::none);
  CHECK(refusal_of("-MOVEDX 1\r\n", false) == Refusal::none);
  CHECK(refusal_of("-WRONGTYPE x\r\n", false) == Refusal::none);
}

TEST_CASE("a script's own error is not taken for the server's refusal") {
  CHECK(refusal_of("-TRYAGAIN later\r\n", true) == Refusal::none);
  CHECK(refusal_of("-TRYAGAIN Multiple keys request during rehashing of slot\r\n", true) ==
        Refusal::tryagain);
  CHECK(refusal_of("-READONLY You can't write against a read only replica. script: f\r\n", true) ==
        Refusal::none);
  CHECK(refusal_of("-CLUSTERDOWN The cluster is down\r\n", true) == Refusal::clusterdown);
}

TEST_CASE("R-12: a redirect's host is everything before the last colon") {
  const auto ipv6 = parse_redirect("-MOVED 4844 ::1:7000\r\n");
  REQUIRE(ipv6.has_value());
  CHECK(ipv6->slot == 4844);
  CHECK(ipv6->target == cluster::Endpoint{"::1", 7000});
  CHECK(parse_redirect("-ASK 1 :7001\r\n")->target == cluster::Endpoint{"", 7001});
  CHECK(parse_redirect("-ASK 1 ?:7001\r\n")->target == cluster::Endpoint{"", 7001});
  for (const char* text : {"-MOVED\r\n", "-MOVED 1\r\n", "-MOVED x h:1\r\n", "-MOVED 1 h\r\n",
                           "-MOVED 16384 h:1\r\n", "-MOVED 1 h:0\r\n", "-MOVED 1 h:70000\r\n"}) {
    CHECK_FALSE(parse_redirect(text).has_value());
  }
}

}  // namespace penstock::session
