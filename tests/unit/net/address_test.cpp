// Addresses as texts.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/address.h"

#include "catch.h"

namespace penstock::net {

TEST_CASE("R-12: the port is behind the last colon, brackets or not") {
  CHECK(parse_host_port("127.0.0.1:7000") == HostPort{"127.0.0.1", 7000});
  CHECK(parse_host_port("::1:7000") == HostPort{"::1", 7000});
  CHECK(parse_host_port("[::1]:7000") == HostPort{"::1", 7000});
  CHECK(parse_host_port("[2001:db8::2]:1") == HostPort{"2001:db8::2", 1});
  CHECK(parse_host_port("name.example:6379") == HostPort{"name.example", 6379});
  CHECK_FALSE(parse_host_port("no-port").has_value());
  CHECK_FALSE(parse_host_port("host:").has_value());
  CHECK_FALSE(parse_host_port("host:70000").has_value());
  CHECK_FALSE(parse_host_port("host:1x").has_value());
}

TEST_CASE("an IPv6 address is shown in brackets") {
  CHECK(to_string(HostPort{"::1", 7000}) == "[::1]:7000");
  CHECK(to_string(*numeric_address("::1", 7000)) == "[::1]:7000");
  CHECK(to_string(*numeric_address("10.1.2.3", 80)) == "10.1.2.3:80");
  CHECK_FALSE(numeric_address("localhost", 80).has_value());
}

TEST_CASE("a Unix socket's path must fit") {
  CHECK(unix_address("/run/penstock.sock").has_value());
  CHECK_FALSE(unix_address(std::string(200, 'x')).has_value());
}

}  // namespace penstock::net
