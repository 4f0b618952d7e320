// What the proxy's own commands may know and change of a client: plain data, owned by its session.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "penstock/resp/reply_writer.h"

namespace penstock::admin {

// CLIENT REPLY: off silences every reply, skip the next one.
enum class ReplyMode : std::uint8_t { on, off, skip };

struct ClientState {
  std::uint64_t id = 0;
  resp::Protocol protocol = resp::Protocol::resp2;
  ReplyMode reply_mode = ReplyMode::on;
  bool authenticated = false;  // true also when no password is asked for
  bool close_requested = false;  // QUIT, or killed by itself
  bool no_evict = false;
  bool no_touch = false;
  std::uint16_t last_command = 0xffff;  // index in the command table; 0xffff: none yet
  std::int64_t connected_at_ms = 0;     // monotonic
  std::int64_t active_at_ms = 0;
  std::string name, library_name, library_version;
};

// What only the session knows, collected when somebody asks for it.
struct ClientFacts {
  const ClientState& state;
  int fd;
  std::size_t query_bytes, output_bytes, requests_in_flight;
  std::size_t memory_bytes;
  bool shares_pipes;  // its requests go through the shared pipes
};

}  // namespace penstock::admin
