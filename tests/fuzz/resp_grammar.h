// Random but well-formed requests, inline lines and replies, for the mutators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::fuzz {

using Random = std::minstd_rand;

// A number below `bound`.
std::size_t below(Random& random, std::size_t bound);

// A command of the table with arguments that it may take: keys, numbers, options, odd bytes.
std::vector<std::string> random_command(Random& random);
std::string random_request(Random& random);
std::string random_inline_line(Random& random);
// Any reply of RESP2 or RESP3, nested a few levels deep.
std::string random_reply(Random& random, int depth = 3);

}  // namespace penstock::fuzz
