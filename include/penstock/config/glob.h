// The server's glob patterns: *, ?, [a-z], [^a], \\x. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::config {

// Names of commands and parameters ignore case, keys do not.
enum class GlobCase : std::uint8_t { ignored, exact };

bool matches_glob(std::string_view pattern, std::string_view text,
                  GlobCase glob_case = GlobCase::ignored);

}  // namespace penstock::config
