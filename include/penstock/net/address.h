// A socket address: IPv4, IPv6 or a Unix path; and "host:port" texts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::net {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

struct HostPort {
  std::string host;  // without brackets
  std::uint16_t port = 0;

  bool operator==(const HostPort&) const = default;
};

// "host:port" and "[ipv6]:port"; the host is all before the LAST colon, so "::1:7000" works too.
std::optional<HostPort> parse_host_port(std::string_view text);
// "host:port", with brackets around an IPv6 host.
std::string to_string(const HostPort& address);

// A numeric host and a port; none when the host is a name.
std::optional<Address> numeric_address(const std::string& host, std::uint16_t port);
// A Unix socket's path; none when it is too long.
std::optional<Address> unix_address(const std::string& path);

// "127.0.0.1:1234", "[::1]:1234" or "/run/penstock.sock:0", as the server's CLIENT LIST shows it.
std::string to_string(const Address& address);
Address local_address(int fd);
Address peer_address(int fd);

}  // namespace penstock::net
