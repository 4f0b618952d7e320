// From a request to what is done with it. The straight line is inline, in the header.
// SPDX-License-Identifier: Apache-2.0
#include "session/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "penstock/log/log.h"
#include "penstock/resp/number.h"
#include "session/fan_out.h"
#include "session/redirector.h"

namespace penstock::session {

using command::Command;
using command::Handling;
using command::KeyShape;

namespace {

constexpr std::string_view kCrossSlot =
    "CROSSSLOT Keys in request don't hash to the same slot";

// The server shows about this much of the arguments of what it does not understand.
constexpr std::size_t kEchoMax = 128;

std::string upper_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (c == '|') c = ' ';
  }
  return out;
}

}  // namespace

// Everything that is not on the straight line.
Taken Dispatcher::examine(Session& session, const Command* command,
                          const resp::Request& request) {
  if (command == nullptr) return unknown(session, request);
  if (command->subcommand_count > 0 && request.size() > 1) {
    const Command* sub = context_.commands.find_subcommand(*command, request[1]);
    if (sub == nullptr) return unknown_subcommand(session, *command, request);
    command = sub;
  }
  if (!command->takes(request.size())) return wrong_arity(session, *command);
  if (!session.state().authenticated && !command->has(command::kFlagNoAuth)) {
    return fail(session, *command, "NOAUTH Authentication required.");
  }
  return handle(session, *command, request);
}

Taken Dispatcher::by_keys(Session& session, const Command& command, const resp::Request& request) {
  switch (command.key_shape) {
    case KeyShape::argument_1:
      return to_slot(session, command, request, cluster::hash_slot(request[1]), false);
    case KeyShape::argument_2:
      return to_slot(session, command, request, cluster::hash_slot(request[2]), false);
    default: break;
  }
  auto& keys = context_.keys;
  if (!command::find_keys(command, request, keys) || keys.empty()) {
    return to_any_master(session, command, request);
  }
  const cluster::Slot slot = cluster::hash_slot(request[keys[0].argument]);
  for (const command::KeyPosition& key : keys) {
    if (cluster::hash_slot(request[key.argument]) != slot) {
      return fail(session, command, kCrossSlot);
    }
  }
  return to_slot(session, command, request, slot, keys.size() > 1);
}

Taken Dispatcher::handle(Session& session, const Command& command, const resp::Request& request) {
  if (context_.caching && command.cache_role != command::CacheRole::none) {
    return with_cache(session, command, request);
  }
  return route(session, command, request);
}

Taken Dispatcher::route(Session& session, const Command& command, const resp::Request& request) {
  switch (command.handling) {
    case Handling::local: return local(session, command, request);
    case Handling::split_values:
    case Handling::split_all_ok:
    case Handling::split_sum: return split(session, command, request);
    case Handling::any_master: return to_any_master(session, command, request);
    case Handling::slot_argument: return slot_argument(session, command, request);
    case Handling::debug: return debug(session, command, request);
    case Handling::xread:
      if (command::reads_blocking(request)) {
        return not_here(session, command, "with BLOCK is not supported yet");
      }
      return by_keys(session, command, request);
    case Handling::not_yet: return not_here(session, command, "is not supported yet");
    case Handling::refused:
      return not_here(session, command,
                      "is not allowed through the proxy: it administers single nodes");
    case Handling::by_keys: return by_keys(session, command, request);
    case Handling::container: break;
  }
  return unknown_subcommand(session, command, request);
}

Taken Dispatcher::to_slot(Session& session, const Command& command, const resp::Request& request,
                          cluster::Slot slot, bool several_keys, backend::Watch watch) {
  return straight_to_slot(session, command, request, slot, several_keys, watch);
}

// The slot has no owner, or its owner no connection or no room, or the request is large, or it goes
// through a shared pipe.
Taken Dispatcher::to_slot_unusual(Session& session, const Command& command,
                                  const resp::Request& request, cluster::Slot slot,
                                  bool several_keys, backend::Watch watch) {
  const cluster::NodeIndex node = context_.router.node_of(slot);
  const backend::RequestTimes times{context_.now(), context_.now(), 0,
                                    command.has(command::kFlagReadonly), watch};
  if (node == cluster::kNoNode) {
    const std::uint32_t sequence = session.open(command, slot, several_keys);
    context_.redirector->await_owner(session, sequence, request.frame(), times, slot);
    return Taken::yes;
  }
  sharding::Outlet outlet = session.outlet(node, slot);
  if (!outlet.has_room()) return Taken::wait_for_pipe;
  const std::uint32_t sequence = session.open(command, slot, several_keys);
  if (outlet.is_unreachable()) {
    context_.redirector->fail_unreachable(session.token(sequence), *outlet.pipe());
  } else if (net::Block* block = watch == backend::Watch::none
                                     ? session.adopt_request(request.frame()) : nullptr) {
    outlet.append(session.token(sequence), block, times);
  } else {
    outlet.append(session.token(sequence), request.frame(), times);
  }
  return Taken::yes;
}

// Any master will do, so one that is up is taken, in turn.
Taken Dispatcher::to_any_master(Session& session, const Command& command,
                                const resp::Request& request) {
  std::optional<sharding::Outlet> outlet = context_.redirector->any_master(session);
  if (outlet && !outlet->has_room()) return Taken::wait_for_pipe;
  const std::uint32_t sequence = session.open(command, cluster::kNoSlot, false);
  const backend::RequestTimes times{context_.now(), context_.now(), 0,
                                    command.has(command::kFlagReadonly)};
  if (outlet) {
    outlet->append(session.token(sequence), request.frame(), times);
  } else {
    context_.redirector->fail_without_master(session.token(sequence));
  }
  return Taken::yes;
}

// `some_kept`: context_.kept has replies of the cache for some of the keys.
Taken Dispatcher::split(Session& session, const Command& command, const resp::Request& request,
                        backend::Watch watch, bool some_kept) {
  const std::size_t step = command.handling == Handling::split_all_ok ? 2 : 1;
  if ((request.size() - 1) % step != 0) {
    return wrong_arity(session, command);
  }
  const cluster::Slot slot = cluster::hash_slot(request[1]);
  bool one_slot = !some_kept;
  for (std::size_t i = 1 + step; one_slot && i < request.size(); i += step) {
    one_slot = cluster::hash_slot(request[i]) == slot;
  }
  if (!one_slot) return parts_to_slots(session, command, request, watch, some_kept);
  return to_slot(session, command, request, slot, request.size() > 1 + step, watch);
}

Taken Dispatcher::parts_to_slots(Session& session, const Command& command,
                                 const resp::Request& request, backend::Watch watch,
                                 bool some_kept) {
  FanOut* fan_out = context_.fan_outs->get();
  fan_out->plan(command, request, some_kept ? FanOut::Kept(context_.kept) : FanOut::Kept());
  bool several_keys = false;
  for (std::size_t part = 0; part < fan_out->parts(); ++part) {
    if (fan_out->is_done(part)) continue;
    const cluster::Slot slot = fan_out->slot_of(part);
    several_keys = several_keys || fan_out->has_several_keys(part);
    const cluster::NodeIndex node = context_.router.node_of(slot);
    const bool waits = session.must_wait(slot);
    const bool full = node != cluster::kNoNode &&
                      !session.outlet(node, slot).has_room();
    if (!waits && !full) continue;
    context_.fan_outs->put(fan_out);
    return waits ? Taken::wait_for_replies : Taken::wait_for_pipe;
  }
  context_.stats.split_commands.add();
  context_.stats.split_parts.add(fan_out->parts());
  const std::uint32_t sequence = session.open(command, cluster::kNoSlot, several_keys);
  session.sequencer().at(sequence).fan_out = fan_out;
  context_.redirector->send_parts(
      session, sequence, request,
      {context_.now(), context_.now(), 0, command.has(command::kFlagReadonly), watch});
  return Taken::yes;
}

// CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT: only the slot's owner knows.
Taken Dispatcher::slot_argument(Session& session, const Command& command,
                                const resp::Request& request) {
  std::int64_t slot = 0, count = 0;
  const bool counted = request.size() > 3;
  if (!resp::parse_integer(request[2], slot) ||
      (counted && !resp::parse_integer(request[3], count))) {
    return fail(session, command, "ERR value is not an integer or out of range");
  }
  if (slot < 0 || slot >= cluster::kSlots || count < 0) {
    return fail(session, command,
                counted ? "ERR Invalid slot or number of keys" : "ERR Invalid slot");
  }
  return to_slot(session, command, request, static_cast<cluster::Slot>(slot), false);
}

// DEBUG OBJECT reads a key; DEBUG PROTOCOL makes sample replies, of which a push would have no
// request to belong to. Everything else is for people who can reach the node itself.
Taken Dispatcher::debug(Session& session, const Command& command, const resp::Request& request) {
  if (command::equals_ignoring_case(request[1], "object") && request.size() >= 3) {
    return to_slot(session, command, request, cluster::hash_slot(request[2]), false);
  }
  if (command::equals_ignoring_case(request[1], "protocol") && request.size() == 3 &&
      !command::equals_ignoring_case(request[2], "push")) {
    return to_any_master(session, command, request);
  }
  return fail(session, command,
              fmt::format("ERR DEBUG {} is not allowed through the proxy: it administers single "
                          "nodes", resp::shown(request[1], kEchoMax)));
}

Taken Dispatcher::local(Session& session, const Command& command, const resp::Request& request) {
  // What changes the protocol waits until everything before it was answered in the old one.
  const bool switches = command.name == "hello" || command.name == "reset";
  if (switches && !session.sequencer().empty()) return Taken::wait_for_replies;
  const bool skipped = session.state().reply_mode == admin::ReplyMode::skip;
  const std::uint32_t sequence = session.open(command, cluster::kNoSlot, false);
  std::string& text = context_.text;
  text.clear();
  admin::LocalCall call{command, request, session.state(), session.fd(), session.shares(),
                        resp::ReplyWriter(text, session.protocol())};
  context_.services.local.run(call);
  if (command.name == "client|reply" || command.name == "reset") {
    // REPLY ON is answered whatever was silent before it; RESET too, unless it was to be skipped.
    session.sequencer().at(sequence).silent =
        session.state().reply_mode == admin::ReplyMode::off || (skipped && text != "+OK\r\n");
  }
  if (!call.gather) {
    session.reply(sequence, text);
    return Taken::yes;
  }
  const backend::ReplyToken token = session.token(sequence);
  context_.services.gather(std::move(*call.gather), [this, token](const std::string& merged) {
    context_.redirector->answer(token, merged);
  });
  return Taken::yes;
}

Taken Dispatcher::wrong_arity(Session& session, const Command& command) {
  const bool exec = command.name == "exec";
  return fail(session, command,
              fmt::format("{}wrong number of arguments for '{}' command",
                          exec ? "EXECABORT Transaction discarded because of: " : "ERR ",
                          command.name));
}

Taken Dispatcher::fail(Session& session, const Command& command, std::string_view error) {
  const std::uint32_t sequence = session.open(command, cluster::kNoSlot, false);
  context_.text.clear();
  resp::ReplyWriter(context_.text, session.protocol()).error(error);
  session.reply(sequence, context_.text);
  return Taken::yes;
}

Taken Dispatcher::not_here(Session& session, const Command& command, std::string_view why) {
  return fail(session, command, fmt::format("ERR {} {}", upper_name(command.name), why));
}

Taken Dispatcher::unknown(Session& session, const resp::Request& request) {
  // A browser tricked into talking to this port sends these; nothing after them may run.
  if (command::equals_ignoring_case(request[0], "post") ||
      command::equals_ignoring_case(request[0], "host:")) {
    LOG_LIMITED(warn, "client {}: closed, it speaks HTTP", session.state().id);
    session.doom();
    return Taken::yes;
  }
  std::string arguments;
  for (std::size_t i = 1; i < request.size() && arguments.size() < kEchoMax; ++i) {
    fmt::format_to(std::back_inserter(arguments), "'{}' ",
                   resp::shown(request[i], kEchoMax - arguments.size()));
  }
  const std::uint32_t sequence = session.open_unknown();
  context_.text.clear();
  resp::ReplyWriter(context_.text, session.protocol())
      .error(fmt::format("ERR unknown command '{}', with args beginning with: {}",
                         resp::shown(request[0], kEchoMax), arguments));
  session.reply(sequence, context_.text);
  return Taken::yes;
}

Taken Dispatcher::unknown_subcommand(Session& session, const Command& container,
                                     const resp::Request& request) {
  const std::string_view name = request.size() > 1 ? request[1] : std::string_view();
  return fail(session, container,
              fmt::format("ERR unknown subcommand '{}'. Try {} HELP.", resp::shown(name, kEchoMax),
                          upper_name(container.name)));
}

}  // namespace penstock::session
