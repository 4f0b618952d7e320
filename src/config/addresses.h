// Addresses as texts, checked strictly and without a look-up: a mistake is found at start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace penstock::config {

// "host:port" or "[ipv6]:port", the port from 1 to 65535.
bool is_node_address(std::string_view text);

// The same, also with port 0, which is any free one; or "unix:/path".
bool is_listen_address(std::string_view text);

}  // namespace penstock::config
