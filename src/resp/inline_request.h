// Turns an inline request ("SET k v\r\n") into a RESP array, with the server's quoting rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/resp/request.h"

namespace penstock::resp {

// Writes the frame and its arguments; false when quotes are unbalanced (sdssplitargs' rules).
// A line without words gives an empty frame and no arguments.
bool frame_inline_request(std::string_view line, std::string& frame,
                          std::vector<Argument>& arguments);

}  // namespace penstock::resp
