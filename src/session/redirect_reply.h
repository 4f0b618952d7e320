// Error replies that prove that a command did not run, and what they say about where it should.
// Pure functions. Texts: the servers' cluster.c and redis.io/docs/reference/cluster-spec.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "penstock/cluster/hash_slot.h"
#include "penstock/cluster/topology.h"

namespace penstock::session {

enum class Refusal : std::uint8_t {
  none, moved, ask, tryagain, clusterdown, loading, readonly, masterdown
};

// By the error's code. For a script the whole text must be the server's own (`exact`): a script may
// return an error of its own making after it has written.
Refusal refusal_of(std::string_view frame, bool exact);

struct Redirect {
  cluster::Slot slot;
  cluster::Endpoint target;  // an empty host: the one that was asked
};

// "-MOVED 3999 127.0.0.1:6381", "-ASK ...": the host is everything before the last colon.
std::optional<Redirect> parse_redirect(std::string_view frame);

}  // namespace penstock::session
