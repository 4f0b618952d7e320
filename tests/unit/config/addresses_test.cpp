// Which texts are addresses.
// SPDX-License-Identifier: Apache-2.0
#include "config/addresses.h"

#include <string>

#include "catch.h"

namespace penstock::config {

TEST_CASE("a node's address is a name, an IPv4 or a bracketed IPv6 address, with a port") {
  for (const char* good :
       {"localhost:7000", "node-1.example.com:1", "redis_1:65535", "10.0.0.1:6379", "7up:7000",
        "[::1]:7000", "[::]:7000", "[2001:db8::7:1]:7000", "[1:2:3:4:5:6:7:8]:7000",
        "[::ffff:10.0.0.1]:7000", "[1::]:7000", "[1:2:3:4:5:6:10.0.0.1]:7000",
        "[fe80::1%eth0]:7000"}) {
    CAPTURE(good);
    CHECK(is_node_address(good));
    CHECK(is_listen_address(good));
  }
}

TEST_CASE("a text without a host or a port in range is no address") {
  for (const char* bad :
       {"", ":", "localhost", "localhost:", ":7000", "localhost:70000", "localhost:65536",
        "localhost:-1", "localhost:+1", "localhost: 1", "localhost:1 ", "localhost:0x10",
        "localhost:007000", "localhost:99999999999999999999", "localhost:7000:", "a b:7000",
        "a/b:7000", "*:7000", "redis://a:7000", "\xc3\xa9:7000"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_node_address(bad));
    CHECK_FALSE(is_listen_address(bad));
  }
}

TEST_CASE("a host of digits and dots has to be an IPv4 address") {
  for (const char* bad : {"10.0.0:7000", "10.0.0.256:7000", "10.0.0.1.2:7000", "10..0.1:7000",
                          "10.0.0.:7000", "7000:7000", ".:7000", "10.0.0.0001:7000",
                          "10.0.0.01:7000"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_node_address(bad));
  }
}

TEST_CASE("an IPv6 address has to be whole and in brackets") {
  for (const char* bad :
       {"::1", "::1:7000", "[::1", "[::1:7000", "::1]:7000", "[::1]", "[::1]7000", "[]:7000",
        "[localhost]:7000", "[10.0.0.1]:7000", "[1]:7000", "[1:2:3:4:5:6:7]:7000",
        "[1:2:3:4:5:6:7:8:9]:7000", "[1:2:3:4::5:6:7:8]:7000", "[1::2::3]:7000", "[:::1]:7000",
        "[1:::2]:7000", "[::1:]:7000", "[:1::2]:7000", "[1:]:7000", "[12345::1]:7000",
        "[::g]:7000", "[10.0.0.1::]:7000", "[::10.0.0.1:1]:7000", "[::1%]:7000", "[%eth0]:7000",
        "[::1%a/b]:7000", "[[::1]]:7000"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_node_address(bad));
    CHECK_FALSE(is_listen_address(bad));
  }
}

TEST_CASE("port 0 is a port to listen on and no node's") {
  CHECK(is_listen_address("127.0.0.1:0"));
  CHECK_FALSE(is_node_address("127.0.0.1:0"));
}

TEST_CASE("a Unix socket has an absolute path that fits, and is no node") {
  CHECK(is_listen_address("unix:/run/a b.sock"));
  CHECK(is_listen_address("unix:/" + std::string(106, 'x')));
  CHECK_FALSE(is_listen_address("unix:/" + std::string(107, 'x')));
  CHECK_FALSE(is_listen_address("unix:"));
  CHECK_FALSE(is_listen_address("unix:run/penstock.sock"));
  CHECK_FALSE(is_listen_address(std::string("unix:/a\0b", 9)));
  CHECK_FALSE(is_node_address("unix:/run/penstock.sock"));
}

}  // namespace penstock::config
