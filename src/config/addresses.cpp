// The forms of an address: names, IPv4, IPv6, ports, and paths of Unix sockets.
// SPDX-License-Identifier: Apache-2.0
#include "config/addresses.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock::config {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kIpCharacters = "0123456789abcdefABCDEF.:";
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
constexpr std::size_t kNameMax = 253;      // bytes, RFC 1035
constexpr std::size_t kUnixPathMax = 107;  // bytes, unix(7): 108 with the zero at the end
constexpr std::size_t kZoneMax = 15;       // bytes of an interface's name, netdevice(7)

// True exactly when the text has from 1 to `most` characters, all of them among these.
bool consists_of(std::string_view text, std::string_view characters, std::size_t most) {
  return !text.empty() && text.size() <= most &&
         text.find_first_not_of(characters) == std::string_view::npos;
}

// A decimal number of up to `most` digits.
std::optional<std::uint32_t> number(std::string_view text, std::size_t most) {
  if (!consists_of(text, kDigits, most)) return std::nullopt;
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// inet_pton() looks no further than a zero, so only its own characters get there.
bool is_ip(std::string_view text, int family) {
  constexpr std::size_t kLongest = INET6_ADDRSTRLEN - 1;
  in6_addr address;
  return consists_of(text, kIpCharacters, kLongest) &&
         inet_pton(family, std::string(text).c_str(), &address) == 1;
}

// With "%eth0" at the end for an address that is valid on one link only.
bool is_ipv6_with_zone(std::string_view text) {
  const std::size_t percent = text.find('%');
  if (percent == std::string_view::npos) return is_ip(text, AF_INET6);
  const std::string_view zone = text.substr(percent + 1);
  return is_ip(text.substr(0, percent), AF_INET6) &&
         consists_of(zone, kNameCharacters, kZoneMax);
}

bool is_host(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) {
    return is_ipv6_with_zone(text.substr(1, text.size() - 2));
  }
  const bool numeric = text.find_first_not_of("0123456789.") == std::string_view::npos;
  return numeric ? is_ip(text, AF_INET) : consists_of(text, kNameCharacters, kNameMax);
}

bool is_host_port(std::string_view text, std::uint32_t port_min) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::optional<std::uint32_t> port = number(text.substr(colon + 1), 5);
  return is_host(text.substr(0, colon)) && port && *port >= port_min && *port <= 65535;
}

}  // namespace

bool is_node_address(std::string_view text) { return is_host_port(text, 1); }

bool is_listen_address(std::string_view text) {
  constexpr std::string_view kUnix = "unix:";
  if (!text.starts_with(kUnix)) return is_host_port(text, 0);
  const std::string_view path = text.substr(kUnix.size());
  return path.starts_with('/') && path.size() <= kUnixPathMax &&
         path.find('\0') == std::string_view::npos;
}

}  // namespace penstock::config
