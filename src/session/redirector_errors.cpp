// What is not tried again: the deadlines, and the one clear error that names the shard.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>

#include "session/fan_out.h"
#include "session/redirector.h"

namespace penstock::session {

using backend::Lost;
using backend::Pipe;
using backend::ReplyToken;
using backend::RequestTimes;
using backend::TakenRequest;
using cluster::kNoNode;

namespace {

// CLUSTERDOWN replies closer than this belong to one incident.
constexpr net::Nanos kIncidentGap = 1'000'000'000;

net::Nanos nanoseconds(config::Duration duration) { return duration.count() * 1000; }

std::string seconds(config::Duration duration) {
  return fmt::format("{:g}s", std::chrono::duration<double>(duration).count());
}

}  // namespace

void Redirector::on_lost(const ReplyToken& token, Lost why, const TakenRequest& request,
                         const net::HostPort& node, std::string_view trouble) {
  Session* session = sessions_.find(token);
  if (session == nullptr) return;
  const std::string address = net::to_string(node);
  const bool may_have_run = why == Lost::outcome_unknown || why == Lost::timed_out;
  if (may_have_run) {
    session->note_answered(token.sequence, slot_of(*session, token));
    session->keep_pipes();
  }
  switch (why) {
    case Lost::returned:
      return try_again(token, request.bytes, request.times, slot_of(*session, token), kNoNode, 0);
    case Lost::outcome_unknown:
      context_.stats.outcome_unknown.add();
      return fail(token, "ERR Connection lost after the command was sent, it may have run",
                  address);
    case Lost::cut_short:
      context_.stats.outcome_unknown.add();
      if (token.part == ReplyToken::kWhole) return session->doom();  // half a reply is with him
      return fail(token, "ERR The reply broke off in the middle", address);
    case Lost::timed_out:
      context_.stats.timed_out.add();
      return fail(token, fmt::format("ERR Timeout: no answer within {}, the command may have run",
                                     seconds(context_.config.backend.request_timeout)),
                  address);
    case Lost::not_sent: {
      context_.stats.not_sent.add();
      // A read that was sent once, and lost its connection, may well have run.
      const bool surely = request.times.attempts == 0 || !request.times.repeatable;
      return fail(token, fmt::format("CLUSTERDOWN No connection ({}){}", trouble,
                                     surely ? ", the command did not run" : ""),
                  address);
    }
  }
}

void Redirector::await_owner(Session& session, std::uint32_t sequence, std::string_view frame,
                             const RequestTimes& times, cluster::Slot slot) {
  context_.services.request_refresh();
  if (hole_is_old()) return fail_hole(session.token(sequence));
  try_again(session.token(sequence), frame, times, slot, kNoNode, kOwnerPause);
}

void Redirector::fail_hole(const ReplyToken& token) {
  context_.stats.not_sent.add();
  fail(token, hole_error(), "");
}

std::string Redirector::hole_error() const {
  if (!context_.router.topology().empty()) return "CLUSTERDOWN Hash slot not served";
  const std::string trouble = context_.services.cluster_trouble();
  return fmt::format("CLUSTERDOWN The cluster is not known yet: {}",
                     trouble.empty() ? "no node has answered so far" : trouble);
}

void Redirector::fail_unreachable(const ReplyToken& token, const Pipe& pipe) {
  context_.stats.not_sent.add();
  fail(token,
       fmt::format("CLUSTERDOWN No connection ({}), the command did not run", pipe.trouble()),
       net::to_string(pipe.node()));
}

void Redirector::fail_without_master(const ReplyToken& token) {
  if (context_.router.topology().empty()) return fail_hole(token);
  context_.stats.not_sent.add();
  fail(token, "CLUSTERDOWN No master can be reached", "");
}

// One error, for a whole command or for the part that failed. It names the shard.
void Redirector::fail(const ReplyToken& token, std::string_view error,
                      const std::string& address) {
  Session* session = sessions_.find(token);
  if (session == nullptr) return;
  if (token.part == ReplyToken::kWhole) {
    const std::string shard = address.empty() ? "" : fmt::format(" (shard {})", address);
    return session->reply(token.sequence, fmt::format("-{}{}\r\n", error, shard));
  }
  FanOut* fan_out = session->sequencer().at(token.sequence).fan_out;
  if (fan_out != nullptr && fan_out->add_failure(token.part, error, address)) {
    fan_out->merge(*session, token.sequence);
  }
}

bool Redirector::deadline_passed(const RequestTimes& times) const {
  const auto limit =
      static_cast<backend::Micros>(context_.config.backend.retry_deadline.count());
  return context_.now() - times.begun > limit;
}

// True when requests for slots without an owner need not wait any longer for one.
bool Redirector::hole_is_old() const {
  if (covered_) return false;
  const bool never_known = context_.router.topology().empty();
  if (never_known && !context_.services.cluster_trouble().empty()) return true;
  return context_.reactor.now() - hole_since_ >
         nanoseconds(context_.config.backend.retry_deadline);
}

// True when the cluster has been down for longer than a request may wait: fail at once then.
bool Redirector::note_cluster_down() {
  const net::Nanos now = context_.reactor.now();
  if (now - down_last_ > kIncidentGap) down_since_ = now;
  down_last_ = now;
  return now - down_since_ > nanoseconds(context_.config.backend.retry_deadline);
}

}  // namespace penstock::session
