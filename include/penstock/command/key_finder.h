// Finds a command's keys among its arguments, by the key specifications of the servers.
// Pure functions over a request.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "penstock/command/command.h"
#include "penstock/resp/request.h"

namespace penstock::command {

// One key: which argument it is and what the command does with it ("RW access update", ...).
struct KeyPosition {
  std::uint32_t argument;
  std::string_view flags;
};

// Fills `keys` (cleared first) in the order of the specifications. False when the arguments do not
// fit them, e.g. a count of keys that is no number: the server then answers with its own error.
bool find_keys(const Command& command, const resp::Request& request,
               std::vector<KeyPosition>& keys);

// What the command does with one of its keys; for SET and BITFIELD that depends on their options.
std::string_view key_flags(const Command& command, const resp::Request& request,
                           const KeyPosition& key);

// Whether an XREAD or XREADGROUP has the option BLOCK.
bool reads_blocking(const resp::Request& request);

// Whether `option` is among the arguments from `first` on, ignoring case.
bool has_option(const resp::Request& request, std::size_t first, std::string_view option);

bool equals_ignoring_case(std::string_view a, std::string_view b);

}  // namespace penstock::command
