// Listening sockets and the options of connected ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace penstock::net {

// A listening, non-blocking socket for "host:port", "[ipv6]:port" or "unix:/path".
// Throws std::runtime_error with the address and the reason.
int open_listening_socket(const std::string& address, int backlog);

// Whether the peer has not acknowledged everything that was sent.
bool has_unsent_bytes(int fd);

// No Nagle, and probes of a silent peer after `keepalive` (0: none).
void set_client_options(int fd, std::chrono::microseconds keepalive);

// As for a client, and the connection breaks when sent bytes stay unacknowledged, or probes
// unanswered, for three times `keepalive`.
void set_node_options(int fd, std::chrono::microseconds keepalive);

}  // namespace penstock::net
