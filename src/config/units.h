// Durations and sizes with units: "50us", "200ms", "15s", "2m", "1h"; "512b", "64kb", "1gb".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/config/config.h"

namespace penstock::config {

std::optional<Duration> parse_duration(std::string_view text);
std::string print_duration(Duration duration);

std::optional<std::uint64_t> parse_size(std::string_view text);
std::string print_size(std::uint64_t bytes);

}  // namespace penstock::config
