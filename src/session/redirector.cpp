// Requests that were refused, lost, or have nowhere to go. The errors that end them are in
// redirector_errors.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "session/redirector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "penstock/resp/request_scanner.h"
#include "session/fan_out.h"

namespace penstock::session {

using backend::ReplyToken;
using backend::RequestTimes;
using backend::TakenRequest;
using cluster::kNoNode;
using cluster::kNoSlot;
using sharding::Outlet;

namespace {

// Redirects are followed at once this often; then two nodes disagree, and time must pass.
constexpr std::uint8_t kImmediateRedirects = 3;

constexpr std::string_view kAsking = "*1\r\n$6\r\nASKING\r\n";

// The wait before the next attempt: doubling from `first` to `longest`.
net::Nanos back_off(std::uint8_t attempts, net::Nanos first, net::Nanos longest) {
  return std::min(first << std::min<int>(attempts, 16), longest);
}

bool is_script(const command::Command& command) {
  return (command.categories & command::kCategoryScripting) != 0;
}

bool is_split_read(const command::Command& command) {
  const bool split = command.handling == command::Handling::split_values ||
                     command.handling == command::Handling::split_sum;
  return split && command.has(command::kFlagReadonly);
}

}  // namespace

bool Redirector::absorb(Session& session, const ReplyToken& token, std::string_view frame,
                        const net::HostPort& node, const TakenRequest& request) {
  Place& place = session.sequencer().at(token.sequence);
  const command::Command& command = context_.commands.all()[place.command];
  const Refusal refusal = refusal_of(frame, is_script(command));
  if (refusal == Refusal::none) return false;
  if (refusal == Refusal::moved || refusal == Refusal::ask) {
    return follow(session, token, frame, node, request, refusal);
  }
  count(refusal);
  if (deadline_passed(request.times)) return false;
  if (refusal == Refusal::clusterdown && note_cluster_down()) return false;
  if (refusal == Refusal::tryagain && is_split_read(command) &&
      split_further(session, token, request)) {
    return true;
  }
  if (refusal != Refusal::tryagain) {
    context_.services.request_refresh();
    place.refused = true;
  }
  const bool quick = refusal == Refusal::tryagain;
  const net::Nanos delay = back_off(request.times.attempts, (quick ? 1 : 10) * kMillisecond,
                                    (quick ? 50 : 100) * kMillisecond);
  try_again(token, request.bytes, request.times, slot_of(session, token), kNoNode, delay);
  return true;
}

// MOVED and ASK: to the node they name, if the map knows it. An address that only a reply named is
// never dialled: it could be a script's invention, and the password would go there.
bool Redirector::follow(Session& session, const ReplyToken& token, std::string_view frame,
                        const net::HostPort& asked, const TakenRequest& request,
                        Refusal refusal) {
  const std::optional<Redirect> redirect = parse_redirect(frame);
  if (!redirect || !adopt_slot(session, token, redirect->slot)) return false;
  const cluster::Slot slot = redirect->slot;
  count(refusal);
  const cluster::NodeIndex node = context_.router.find(redirect->target, asked.host);
  // What is known of the slot's keys may be known of a node that has them no more.
  context_.cache.slots().forget(slot);
  context_.stats.cache_slots_forgotten.add();
  if (refusal == Refusal::moved || node == kNoNode) context_.services.request_refresh();
  if (refusal == Refusal::moved && node != kNoNode) context_.router.teach(slot, node);
  if (deadline_passed(request.times)) {
    fail(token, "CLUSTERDOWN The slot keeps moving", net::to_string(asked));
    return true;
  }
  const std::uint8_t attempts = request.times.attempts;
  const bool at_once = node != kNoNode && attempts < kImmediateRedirects;
  const net::Nanos delay =
      at_once ? 0 : back_off(attempts, 5 * kMillisecond, 100 * kMillisecond);
  try_again(token, request.bytes, request.times, slot, refusal == Refusal::ask ? node : kNoNode,
            delay);
  return true;
}

// Whether a redirect may be believed that names this slot. A command in which we saw no key and the
// node did belongs to the node's slot from now on; but a script may return what it likes.
bool Redirector::adopt_slot(Session& session, const ReplyToken& token, cluster::Slot slot) {
  const cluster::Slot ours = slot_of(session, token);
  if (ours != kNoSlot || token.part != ReplyToken::kWhole) return ours == slot;
  Place& place = session.sequencer().at(token.sequence);
  if (is_script(context_.commands.all()[place.command])) return false;
  place.slot = slot;
  return true;
}

void Redirector::count(Refusal refusal) {
  stats::WorkerStats& stats = context_.stats;
  switch (refusal) {
    case Refusal::moved: return stats.moved.add();
    case Refusal::ask: return stats.ask.add();
    case Refusal::tryagain: return stats.tryagain.add();
    case Refusal::clusterdown: return stats.clusterdown.add();
    case Refusal::loading: return stats.loading.add();
    case Refusal::readonly: return stats.readonly.add();
    case Refusal::masterdown: return stats.masterdown.add();
    case Refusal::none: return;
  }
}

void Redirector::send_parts(Session& session, std::uint32_t sequence, const resp::Request& request,
                            const RequestTimes& times) {
  FanOut& fan_out = *session.sequencer().at(sequence).fan_out;
  bool complete = false;
  for (std::size_t part = 0; part < fan_out.parts(); ++part) {
    if (fan_out.is_done(part)) continue;
    const cluster::Slot slot = fan_out.slot_of(part);
    const ReplyToken token = session.token(sequence, static_cast<std::uint32_t>(part));
    const std::size_t size = fan_out.request_size(part);
    const cluster::NodeIndex node = context_.router.node_of(slot);
    if (node == kNoNode && !hole_is_old()) {
      std::string bytes(size, '\0');
      fan_out.write_request(part, request, bytes.data());
      try_again(token, bytes, times, slot, kNoNode, kOwnerPause);
      context_.services.request_refresh();
      continue;
    }
    if (node == kNoNode) {
      context_.stats.not_sent.add();
      complete = fan_out.add_failure(part, hole_error(), "");
      continue;
    }
    sharding::Outlet outlet = session.outlet(node, slot);
    if (outlet.is_unreachable()) {
      context_.stats.not_sent.add();
      complete = fan_out.add_failure(
          part, fmt::format("CLUSTERDOWN No connection ({})", outlet.pipe()->trouble()),
          net::to_string(outlet.pipe()->node()));
      continue;
    }
    send_part(fan_out, part, request, outlet, token, times);
  }
  if (complete) fan_out.merge(session, sequence);
}

void Redirector::send_part(const FanOut& fan_out, std::size_t part, const resp::Request& request,
                           Outlet& outlet, const ReplyToken& token, const RequestTimes& times) {
  const std::size_t size = fan_out.request_size(part);
  if (times.watch == backend::Watch::none) {
    fan_out.write_request(part, request, outlet.reserve(size));
    return outlet.commit(token, size, times);
  }
  // Others may be sent in front of it.
  context_.text.resize(size);
  fan_out.write_request(part, request, context_.text.data());
  outlet.append(token, context_.text, times);
}

void Redirector::part_reply(Session& session, const ReplyToken& token, std::string_view piece,
                            bool last, const net::HostPort& node) {
  FanOut* fan_out = session.sequencer().at(token.sequence).fan_out;
  if (fan_out == nullptr) return;
  session.note_answered(token.sequence, fan_out->slot_of(token.part));
  session.note_part_bytes(piece.size());
  if (fan_out->add_reply(token.part, piece, last, node)) {
    fan_out->merge(session, token.sequence);
  }
}

// While a slot moves, some of a read's keys may be here and some there: each is asked for alone.
// False when they are too many for that.
bool Redirector::split_further(Session& session, const ReplyToken& token,
                               const TakenRequest& request) {
  resp::RequestScanner scanner;
  scanner.scan(request.bytes, {});
  const resp::Request whole = scanner.request(request.bytes);
  Place& place = session.sequencer().at(token.sequence);
  const cluster::Slot slot = slot_of(session, token);
  if (place.fan_out == nullptr) {
    place.fan_out = context_.fan_outs->get();
    place.fan_out->plan(context_.commands.all()[place.command], whole);
  }
  const std::size_t part = token.part == ReplyToken::kWhole ? 0 : token.part;
  if (!place.fan_out->can_split(part)) return false;
  const std::size_t first = place.fan_out->split_part(part);
  for (std::size_t i = 1; i < whole.size(); ++i) {
    const std::string bytes = fmt::format("*2\r\n${}\r\n{}\r\n${}\r\n{}\r\n", whole[0].size(),
                                          whole[0], whole[i].size(), whole[i]);
    try_again(session.token(token.sequence, static_cast<std::uint32_t>(first + i - 1)), bytes,
              request.times, slot, kNoNode, 0);
  }
  return true;
}

std::optional<Outlet> Redirector::any_master(Session& session) {
  const auto masters = context_.router.masters();
  std::optional<Outlet> untried, troubled;
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const cluster::NodeIndex node = masters[next_master_++ % masters.size()];
    const Outlet outlet = session.outlet(node, 0);
    switch (outlet.standing()) {
      case Outlet::Standing::ready: return outlet;
      case Outlet::Standing::untried: untried = outlet; break;
      case Outlet::Standing::troubled: troubled = outlet; break;
      case Outlet::Standing::unreachable: break;
    }
  }
  return untried ? untried : troubled;
}

void Redirector::answer(const ReplyToken& token, std::string_view text) {
  if (Session* session = sessions_.find(token)) session->reply(token.sequence, text);
}

void Redirector::on_new_topology() {
  const bool covered = context_.router.topology().slots_covered() == cluster::kSlots;
  if (covered_ && !covered) hole_since_ = context_.reactor.now();
  covered_ = covered;
  for (Waiting& waiting : waiting_) {
    if (waiting.asked == kNoNode) waiting.due = 0;
  }
}

void Redirector::try_again(const ReplyToken& token, std::string_view bytes, RequestTimes times,
                           cluster::Slot slot, cluster::NodeIndex asked, net::Nanos delay) {
  Session* session = sessions_.find(token);
  if (session == nullptr) return;
  session->note_retry(token.sequence);
  context_.stats.retries.add();
  if (times.attempts < UINT8_MAX) ++times.attempts;
  times.watch = backend::Watch::none;
  waiting_.push_back(
      {token, std::string(bytes), times, slot, asked, context_.reactor.now() + delay});
}

void Redirector::run_due() {
  if (waiting_.empty()) return;
  std::vector<Waiting> waiting;
  waiting.swap(waiting_);
  for (Waiting& each : waiting) {
    if (each.due <= context_.reactor.now() && send(each)) continue;
    waiting_.push_back(std::move(each));
  }
}

net::Nanos Redirector::next_due() const {
  net::Nanos due = INT64_MAX;
  for (const Waiting& each : waiting_) {
    // What is due and still here waits for an earlier request's reply, which is an event.
    if (each.due > context_.reactor.now()) due = std::min(due, each.due);
  }
  return due;
}

// True when the request need not wait any longer: it was sent, or its client is gone or answered.
bool Redirector::send(Waiting& waiting) {
  Session* session = sessions_.find(waiting.token);
  if (session == nullptr) return true;
  if (session->sequencer().at(waiting.token.sequence).overtaken) {
    fail(waiting.token,
         "TRYAGAIN Refused at first, and a later command of its slot ran; it did not run", "");
    return true;
  }
  const std::uint32_t sequence = waiting.token.sequence;
  if (waiting.slot != kNoSlot && (session->has_earlier(sequence, waiting.slot) ||
                                  session->may_be_overtaken(sequence, waiting.slot))) {
    return false;
  }
  if (waiting.slot == kNoSlot) {
    const std::optional<Outlet> outlet = any_master(*session);
    if (outlet) return send_to(*outlet, waiting);
  } else {
    const cluster::NodeIndex node =
        waiting.asked == kNoNode ? context_.router.node_of(waiting.slot) : waiting.asked;
    if (node != kNoNode && context_.router.is_known(node)) {
      return send_to(session->outlet(node, waiting.slot), waiting);
    }
  }
  waiting.asked = kNoNode;
  if (deadline_passed(waiting.times) || hole_is_old()) {
    fail_hole(waiting.token);
    return true;
  }
  waiting.due = context_.reactor.now() + kOwnerPause;
  context_.services.request_refresh();
  return false;
}

bool Redirector::send_to(Outlet outlet, const Waiting& waiting) {
  if (outlet.is_unreachable()) {
    fail_unreachable(waiting.token, *outlet.pipe());
    return true;
  }
  RequestTimes times = waiting.times;
  times.queued = context_.now();
  if (waiting.asked != kNoNode) outlet.append(ReplyToken{}, kAsking, {times.begun, times.queued});
  outlet.append(waiting.token, waiting.bytes, times);
  return true;
}

cluster::Slot Redirector::slot_of(Session& session, const ReplyToken& token) const {
  const Place& place = session.sequencer().at(token.sequence);
  return token.part == ReplyToken::kWhole ? place.slot : place.fan_out->slot_of(token.part);
}

}  // namespace penstock::session
