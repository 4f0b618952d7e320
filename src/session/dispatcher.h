// From a request to what is done with it: looked up, checked, then routed, split or answered here.
// One per worker; keeps nothing of a session.
//
//      request -> command -> arity, AUTH -> handling -> slot -> node -> pipe
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "penstock/cluster/hash_slot.h"
#include "penstock/command/command.h"
#include "session/session.h"
#include "session/session_context.h"
#include "session/shared_reads.h"

namespace penstock::session {

class Dispatcher {
 public:
  explicit Dispatcher(SessionContext& context) : context_(context) {}

  Taken dispatch(Session& session, const resp::Request& request);

 private:
  Taken examine(Session& session, const command::Command* command, const resp::Request& request);
  Taken handle(Session& session, const command::Command& command, const resp::Request& request);
  Taken route(Session& session, const command::Command& command, const resp::Request& request);
  Taken by_keys(Session& session, const command::Command& command, const resp::Request& request);
  Taken split(Session& session, const command::Command& command, const resp::Request& request,
              backend::Watch watch = backend::Watch::none, bool some_kept = false);
  Taken slot_argument(Session& session, const command::Command& command,
                      const resp::Request& request);
  Taken debug(Session& session, const command::Command& command, const resp::Request& request);
  Taken local(Session& session, const command::Command& command, const resp::Request& request);

  Taken straight_to_slot(Session& session, const command::Command& command,
                         const resp::Request& request, cluster::Slot slot, bool several_keys,
                         backend::Watch watch);
  Taken to_slot(Session& session, const command::Command& command, const resp::Request& request,
                cluster::Slot slot, bool several_keys,
                backend::Watch watch = backend::Watch::none);
  Taken to_slot_unusual(Session& session, const command::Command& command,
                        const resp::Request& request, cluster::Slot slot, bool several_keys,
                        backend::Watch watch);
  Taken to_any_master(Session& session, const command::Command& command,
                      const resp::Request& request);
  Taken parts_to_slots(Session& session, const command::Command& command,
                       const resp::Request& request, backend::Watch watch, bool some_kept);

  Taken with_cache(Session& session, const command::Command& command,
                   const resp::Request& request);
  Taken cached_read(Session& session, const command::Command& command,
                    const resp::Request& request);
  Taken cached_values(Session& session, const command::Command& command,
                      const resp::Request& request);
  Taken noted_write(Session& session, const command::Command& command,
                    const resp::Request& request);
  Taken send_shared(Session& session, const command::Command& command,
                    const resp::Request& request, cluster::Slot slot,
                    const cache::ReadName& name, const cache::Claim& writes);
  bool may_join(Session& session, const SharedReads::Read& read, cluster::Slot slot, bool quiet,
                const cache::Claim& writes);
  void wait_for_read(Session& session, std::uint32_t sequence, SharedReads::Read& read);

  Taken fail(Session& session, const command::Command& command, std::string_view error);
  Taken wrong_arity(Session& session, const command::Command& command);
  Taken unknown(Session& session, const resp::Request& request);
  Taken unknown_subcommand(Session& session, const command::Command& container,
                           const resp::Request& request);
  Taken not_here(Session& session, const command::Command& command, std::string_view why);

  SessionContext& context_;
};

// The straight line, inline in Session::take_frames(): dispatch(), then straight_to_slot().
[[gnu::always_inline]] inline Taken Dispatcher::straight_to_slot(Session& session,
                                                        const command::Command& command,
                                                        const resp::Request& request,
                                                        cluster::Slot slot, bool several_keys,
                                                        backend::Watch watch) {
  if (session.must_wait(slot)) [[unlikely]] return Taken::wait_for_replies;
  if (session.shares()) {
    return to_slot_unusual(session, command, request, slot, several_keys, watch);
  }
  const std::string_view frame = request.frame();
  const cluster::NodeIndex node = context_.router.node_of(slot);
  backend::Pipe* const pipe = context_.pipes.find(node, session.protocol(), slot);
  if (pipe == nullptr || !pipe->takes_more() || frame.size() >= Session::kAdoptBytes) [[unlikely]] {
    return to_slot_unusual(session, command, request, slot, several_keys, watch);
  }
  const std::uint32_t sequence = session.open(command, slot, several_keys);
  const backend::Micros now = context_.now();
  pipe->append(session.token(sequence), frame,
               {now, now, 0, command.has(command::kFlagReadonly), watch});
  return Taken::yes;
}

inline Taken Dispatcher::dispatch(Session& session, const resp::Request& request) {
  if (request.empty()) [[unlikely]] return Taken::yes;
  const command::Command* command = context_.commands.find_in_frame(request[0]);
  if (command == nullptr || command->straight_key == 0 || !command->takes(request.size()) ||
      !session.state().authenticated) [[unlikely]] {
    return examine(session, command, request);
  }
  if (context_.caching && command->cache_role != command::CacheRole::none) {
    return with_cache(session, *command, request);
  }
  const cluster::Slot slot = cluster::hash_slot(request[command->straight_key]);
  return straight_to_slot(session, *command, request, slot, false, backend::Watch::none);
}

}  // namespace penstock::session
