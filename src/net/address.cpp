// Socket addresses and "host:port" texts.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>
#include <cstring>

namespace penstock::net {

std::optional<HostPort> parse_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  HostPort out{std::string(host), 0};
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, out.port);
  if (error != std::errc() || stop != end) return std::nullopt;
  return out;
}

std::string to_string(const HostPort& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  const std::string host = ipv6 ? "[" + address.host + "]" : address.host;
  return host + ":" + std::to_string(address.port);
}

std::optional<Address> numeric_address(const std::string& host, std::uint16_t port) {
  Address out;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    out.length = sizeof(*v4);
    return out;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    out.length = sizeof(*v6);
    return out;
  }
  return std::nullopt;
}

std::optional<Address> unix_address(const std::string& path) {
  Address out;
  auto* un = reinterpret_cast<sockaddr_un*>(&out.storage);
  if (path.empty() || path.size() >= sizeof(un->sun_path)) return std::nullopt;
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path, path.c_str(), path.size() + 1);
  out.length = sizeof(*un);
  return out;
}

std::string to_string(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  std::uint16_t port = 0;
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    port = ntohs(v4->sin_port);
  } else if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    port = ntohs(v6->sin6_port);
  } else if (address.family() == AF_UNIX) {
    const auto* un = reinterpret_cast<const sockaddr_un*>(&address.storage);
    return std::string(un->sun_path) + ":0";
  }
  return to_string(HostPort{text, port});
}

Address local_address(int fd) {
  Address out;
  out.length = sizeof(out.storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&out.storage), &out.length);
  return out;
}

Address peer_address(int fd) {
  Address out;
  out.length = sizeof(out.storage);
  getpeername(fd, reinterpret_cast<sockaddr*>(&out.storage), &out.length);
  return out;
}

}  // namespace penstock::net
