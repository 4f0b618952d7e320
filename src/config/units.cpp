// Durations and sizes with units.
// SPDX-License-Identifier: Apache-2.0
#include "config/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace penstock::config {
namespace {

using Unit = std::pair<std::string_view, std::uint64_t>;

constexpr std::array<Unit, 5> kDurationUnits{{{"h", 3'600'000'000},
                                              {"m", 60'000'000},
                                              {"s", 1'000'000},
                                              {"ms", 1000},
                                              {"us", 1}}};
constexpr std::array<Unit, 4> kSizeUnits{
    {{"gb", 1ULL << 30}, {"mb", 1ULL << 20}, {"kb", 1ULL << 10}, {"b", 1}}};

template <std::size_t N>
std::optional<std::uint64_t> parse(std::string_view text, const std::array<Unit, N>& units) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(stop, static_cast<std::size_t>(end - stop));
  for (const auto& [name, factor] : units) {
    if (suffix != name) continue;
    if (number > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
    return number * factor;
  }
  return std::nullopt;
}

template <std::size_t N>
std::string print(std::uint64_t value, const std::array<Unit, N>& units) {
  for (const auto& [name, factor] : units) {
    if (value == 0 || value % factor != 0) continue;
    return fmt::format("{}{}", value / factor, name);
  }
  return fmt::format("0{}", units.back().first);
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  const std::optional<std::uint64_t> us = parse(text, kDurationUnits);
  if (!us) return std::nullopt;
  return Duration(static_cast<std::int64_t>(*us));
}

std::string print_duration(Duration duration) {
  if (duration.count() == 0) return "0s";
  return print(static_cast<std::uint64_t>(duration.count()), kDurationUnits);
}

std::optional<std::uint64_t> parse_size(std::string_view text) { return parse(text, kSizeUnits); }

std::string print_size(std::uint64_t bytes) { return print(bytes, kSizeUnits); }

}  // namespace penstock::config
