// What pipes say to the sessions of a worker, and what others ask about them.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <utility>

#include "session/session_table_parts.h"

namespace penstock::session {

inline void SessionTable::note_backend_time(Place& place, const backend::RequestTimes& times) {
  place.backend_us = parts_->context.now() - times.queued;
  parts_->services.stats.backend_latency.record(place.backend_us);
}

void SessionTable::on_reply(const backend::ReplyToken& token, std::string_view frame,
                            const backend::RequestTimes& times, const net::HostPort& node) {
  Session* session = parts_->sessions.find(token);
  if (session == nullptr) [[unlikely]] {
    if (SharedReads::owns(token)) parts_->shared_reads.on_reply(token, frame, times, node);
    return;
  }
  Place& place = session->sequencer().at(token.sequence);
  note_backend_time(place, times);
  if (token.part == backend::ReplyToken::kWhole) [[likely]] {
    return session->reply_usual(token.sequence, place, frame);
  }
  parts_->redirector.part_reply(*session, token, frame, true, node);
}

void SessionTable::on_error(const backend::ReplyToken& token, std::string_view frame,
                            const backend::TakenRequest& request, const net::HostPort& node) {
  if (SharedReads::owns(token)) return parts_->shared_reads.on_error(token, frame, request, node);
  Session* session = parts_->sessions.find(token);
  if (session == nullptr) return;
  Place& place = session->sequencer().at(token.sequence);
  note_backend_time(place, request.times);
  if (parts_->redirector.absorb(*session, token, frame, node, request)) return;
  if (token.part == backend::ReplyToken::kWhole) {
    session->note_answered(token.sequence, place.slot);
    session->reply(token.sequence, frame);
  } else {
    parts_->redirector.part_reply(*session, token, frame, true, node);
  }
}

void SessionTable::on_reply_piece(const backend::ReplyToken& token, std::string_view piece,
                                  bool last, const net::HostPort& node) {
  if (SharedReads::owns(token)) {
    return parts_->shared_reads.on_reply_piece(token, piece, last, node);
  }
  Session* session = parts_->sessions.find(token);
  if (session == nullptr) return;
  if (token.part == backend::ReplyToken::kWhole) {
    session->note_answered(token.sequence, session->sequencer().at(token.sequence).slot);
    session->reply_piece(token.sequence, piece, last);
  } else {
    parts_->redirector.part_reply(*session, token, piece, last, node);
  }
}

void SessionTable::on_lost(const backend::ReplyToken& token, backend::Lost why,
                           const backend::TakenRequest& request, const net::HostPort& node,
                           std::string_view trouble) {
  if (SharedReads::owns(token)) {
    return parts_->shared_reads.on_lost(token, why, request, node, trouble);
  }
  parts_->redirector.on_lost(token, why, request, node, trouble);
}

void SessionTable::for_each_client(const std::function<void(const admin::ClientFacts&)>& visit) {
  for (std::size_t i = 0; i < parts_->sessions.slots(); ++i) {
    Session* session = parts_->sessions.at(i);
    if (session != nullptr && !session->is_closing()) visit(session->facts());
  }
}

bool SessionTable::kill_client(std::uint64_t id) {
  for (std::size_t i = 0; i < parts_->sessions.slots(); ++i) {
    Session* session = parts_->sessions.at(i);
    if (session == nullptr || session->is_closing() || session->state().id != id) continue;
    session->doom();
    return true;
  }
  return false;
}

std::vector<admin::NodeReport> SessionTable::nodes() {
  std::map<std::string, admin::NodeReport> reports;
  const auto add = [&](backend::Pipe& pipe) {
    const backend::PipeStats& stats = pipe.stats();
    reports[net::to_string(pipe.node())].add({.address = {},
                                              .pipes = 1,
                                              .connected = pipe.is_ready() ? 1U : 0U,
                                              .in_flight = pipe.in_flight(),
                                              .queued_bytes = pipe.queued_bytes(),
                                              .requests = stats.requests,
                                              .replies = stats.replies,
                                              .lost = stats.lost,
                                              .timeouts = stats.timeouts,
                                              .connects = stats.connects,
                                              .failures = stats.failures,
                                              .trouble = pipe.trouble()});
  };
  parts_->pipes.for_each(add);
  parts_->shared.for_each(add);
  std::vector<admin::NodeReport> out;
  for (auto& [address, report] : reports) {
    report.address = address;
    out.push_back(std::move(report));
  }
  return out;
}

}  // namespace penstock::session
