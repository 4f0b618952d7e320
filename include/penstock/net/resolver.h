// Turns host names into addresses on threads of its own: a dead name server stalls nobody.
// A name is asked for again at every dial; while it does not resolve, its last address is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "penstock/net/address.h"

namespace penstock::net {

class Resolver {
 public:
  using Answer = std::optional<Address>;
  using Done = std::function<void(Answer)>;

  Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

  // Calls `done` at once for a numeric host, else later on a resolver thread; not after the
  // resolver is gone. `done` must be short and must not come back here.
  void resolve(const HostPort& name, Done done);
  // Waits no longer than `timeout`.
  Answer resolve_within(const HostPort& name, std::chrono::milliseconds timeout);

 private:
  struct State;

  // Shared with the threads, which may outlive the resolver while the system's resolver hangs.
  std::shared_ptr<State> state_;
};

}  // namespace penstock::net
