// Passes one reply on to everybody who waits for it.
// SPDX-License-Identifier: Apache-2.0
#include "session/shared_reads.h"

#include <functional>
#include <utility>

namespace penstock::session {

using backend::Lost;
using backend::ReplyToken;
using backend::RequestTimes;
using backend::TakenRequest;

SharedReads::Read& SharedReads::place_of(const cache::ReadName& name) {
  if (reads_.empty()) reads_.resize(kReads);
  const std::size_t arguments = std::hash<std::string_view>()(name.arguments);
  return reads_[(name.hash ^ arguments ^ name.command ^ name.view) % kReads];
}

ReplyToken SharedReads::begin(Read& read, const cache::ReadName& name,
                              const cache::Claim& as_sent) {
  read.name = name;
  read.arguments.assign(name.arguments);
  read.as_sent = as_sent;
  read.under_way = true;
  read.begun_reply = false;
  ++read.generation;
  return {kSession, read.generation, mark_of(read) - 1, ReplyToken::kWhole,
          worker_ & ReplyToken::kWorkersMax};
}

SharedReads::Read* SharedReads::find(const ReplyToken& token) {
  if (reads_.empty()) return nullptr;
  Read& read = reads_[token.sequence % kReads];
  return read.under_way && read.generation == token.generation ? &read : nullptr;
}

const std::vector<ReplyToken>& SharedReads::end(Read& read) {
  read.under_way = false;
  told_.clear();
  told_.swap(read.waiting);
  return told_;
}

void SharedReads::on_reply(const ReplyToken& token, std::string_view frame,
                           const RequestTimes& times, const net::HostPort& node) {
  Read* const read = find(token);
  if (read == nullptr) return;
  for (const ReplyToken& each : end(*read)) sessions_.on_reply(each, frame, times, node);
}

// Each of them follows a redirect by itself.
void SharedReads::on_error(const ReplyToken& token, std::string_view frame,
                           const TakenRequest& request, const net::HostPort& node) {
  Read* const read = find(token);
  if (read == nullptr) return;
  TakenRequest own = request;
  own.times.repeatable = true;
  for (const ReplyToken& each : end(*read)) sessions_.on_error(each, frame, own, node);
}

void SharedReads::on_reply_piece(const ReplyToken& token, std::string_view piece, bool last,
                                 const net::HostPort& node) {
  Read* const read = find(token);
  if (read == nullptr) return;
  read->begun_reply = true;
  const auto& waiting = last ? end(*read) : read->waiting;
  for (const ReplyToken& each : waiting) sessions_.on_reply_piece(each, piece, last, node);
}

// A read may be sent again, unless its client has sent a write behind it that may run before that.
bool SharedReads::may_repeat(const ReplyToken& token) {
  Session* const session = index_.find(token);
  return session != nullptr && !session->has_later_write(token.sequence);
}

void SharedReads::on_lost(const ReplyToken& token, Lost why, const TakenRequest& request,
                          const net::HostPort& node, std::string_view trouble) {
  Read* const read = find(token);
  if (read == nullptr) return;
  for (const ReplyToken& each : end(*read)) {
    const bool again = why == Lost::outcome_unknown && may_repeat(each);
    TakenRequest own = request;
    own.times.repeatable = true;
    sessions_.on_lost(each, again ? Lost::returned : why, own, node, trouble);
  }
}

}  // namespace penstock::session
