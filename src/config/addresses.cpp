// The forms of an address: names, IPv4, IPv6 (RFC 4291), ports, and paths of Unix sockets.
// SPDX-License-Identifier: Apache-2.0
#include "config/addresses.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace penstock::config {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
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

// Takes what is before the separator off the front, and the separator; all where there is none.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

bool is_ipv4(std::string_view text) {
  if (std::count(text.begin(), text.end(), '.') != 3) return false;
  for (int i = 0; i < 4; ++i) {
    const std::string_view part = take_until(text, '.');
    const std::optional<std::uint32_t> value = number(part, 3);
    // A zero in front means octal to some.
    if (!value || *value > 255 || (part.size() > 1 && part.front() == '0')) return false;
  }
  return true;
}

// How many 16-bit groups one side of "::" has; none when it is malformed.
std::optional<std::size_t> ipv6_groups(std::string_view side, bool may_end_in_ipv4) {
  if (side.empty()) return 0;
  if (side.back() == ':') return std::nullopt;
  std::size_t groups = 0;
  while (!side.empty()) {
    const std::string_view group = take_until(side, ':');
    const bool ipv4 = may_end_in_ipv4 && side.empty() && is_ipv4(group);
    if (!ipv4 && !consists_of(group, kHexDigits, 4)) return std::nullopt;
    groups += ipv4 ? 2 : 1;
  }
  return groups;
}

bool is_ipv6(std::string_view text) {
  constexpr std::size_t kGroups = 8;
  const std::size_t gap = text.find("::");
  if (gap == std::string_view::npos) return ipv6_groups(text, true) == kGroups;
  const std::optional<std::size_t> before = ipv6_groups(text.substr(0, gap), false);
  const std::optional<std::size_t> after = ipv6_groups(text.substr(gap + 2), true);
  return before && after && *before + *after < kGroups;
}

// With "%eth0" at the end for an address that is valid on one link only.
bool is_ipv6_with_zone(std::string_view text) {
  const std::size_t percent = text.find('%');
  if (percent == std::string_view::npos) return is_ipv6(text);
  const std::string_view zone = text.substr(percent + 1);
  return is_ipv6(text.substr(0, percent)) && consists_of(zone, kNameCharacters, kZoneMax);
}

bool is_host(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) {
    return is_ipv6_with_zone(text.substr(1, text.size() - 2));
  }
  const bool numeric = text.find_first_not_of("0123456789.") == std::string_view::npos;
  return numeric ? is_ipv4(text) : consists_of(text, kNameCharacters, kNameMax);
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
