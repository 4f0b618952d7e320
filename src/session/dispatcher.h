// From a request to what is done with it: looked up, checked, then routed, split or answered here.
// One per worker; keeps nothing of a session.
//
//      request -> command -> arity, AUTH -> handling -> slot -> node -> pipe
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "penstock/command/command.h"
#include "session/session.h"
#include "session/session_context.h"

namespace penstock::session {

class Dispatcher {
 public:
  explicit Dispatcher(SessionContext& context) : context_(context) {}

  Taken dispatch(Session& session, const resp::Request& request);

 private:
  Taken examine(Session& session, const command::Command* command, const resp::Request& request);
  Taken handle(Session& session, const command::Command& command, const resp::Request& request);
  Taken by_keys(Session& session, const command::Command& command, const resp::Request& request);
  Taken split(Session& session, const command::Command& command, const resp::Request& request);
  Taken slot_argument(Session& session, const command::Command& command,
                      const resp::Request& request);
  Taken debug(Session& session, const command::Command& command, const resp::Request& request);
  Taken local(Session& session, const command::Command& command, const resp::Request& request);

  Taken to_slot(Session& session, const command::Command& command, const resp::Request& request,
                cluster::Slot slot, bool several_keys);
  Taken to_slot_unusual(Session& session, const command::Command& command,
                        const resp::Request& request, cluster::Slot slot, bool several_keys);
  Taken to_any_master(Session& session, const command::Command& command,
                      const resp::Request& request);
  Taken parts_to_slots(Session& session, const command::Command& command,
                       const resp::Request& request);

  Taken fail(Session& session, const command::Command& command, std::string_view error);
  Taken wrong_arity(Session& session, const command::Command& command);
  Taken unknown(Session& session, const resp::Request& request);
  Taken unknown_subcommand(Session& session, const command::Command& container,
                           const resp::Request& request);
  Taken not_here(Session& session, const command::Command& command, std::string_view why);

  SessionContext& context_;
};

}  // namespace penstock::session
