// The reply side of a pipe: bytes -> frame -> the request it answers -> sink.
// A reply whole in the receive buffer passes without a copy; a torn one is held back until it is
// whole; a large one passes through in pieces and is never assembled.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "penstock/backend/pipe.h"
#include "penstock/log/check.h"

namespace penstock::backend {
namespace {

using resp::ScanStatus;

// A torn reply that grows beyond this is passed on in pieces. Errors never are: they are looked at.
constexpr std::size_t kHeldBackMax = 32 * 1024;

// Errors, lines, attributes and pushes are never passed on in pieces. They are short; a node that
// announces a longer one is not a node.
constexpr std::size_t kCollectedMax = 1 << 20;

// A push may name many keys.
constexpr std::size_t kPushMax = 64 << 20;

// How much is copied at least behind the beginning of a torn reply, to find out its length.
constexpr std::size_t kTornStep = 512;

// The kinds that may be large and are passed on in pieces then.
bool is_large_kind(char type) {
  return type == '$' || type == '*' || type == '%' || type == '~' || type == '=';
}

std::size_t most_of(char type) { return type == '>' ? kPushMax : kCollectedMax; }

bool is_beyond_reason(char type, std::size_t known_bytes) {
  return known_bytes > most_of(type) && !is_large_kind(type);
}

}  // namespace

void Pipe::on_data(std::string_view bytes) {
  last_heard_ = now();
  if (state_ == State::ready && torn_ == nullptr && !streaming_) take_short_replies(bytes);
  take_replies(bytes);
}

void Pipe::tell_observer(const Entry& entry, std::string_view reply) {
  observer_->on_watched(entry.times.watch, queue_.front(entry.bytes), reply);
}

// Nobody waits for the reply any more, or somebody else looks at it, too; false: nobody else does.
bool Pipe::pass_on_unusual(const Entry& entry, std::string_view frame) {
  if (entry.times.watch != Watch::none) {
    tell_observer(entry, entry.expired ? std::string_view() : frame);
  }
  return entry.expired || entry.times.watch == Watch::companion;
}

inline void Pipe::pass_on(const Entry& entry, std::string_view frame) {
  if (entry.is_unusual() && pass_on_unusual(entry, frame)) [[unlikely]] return;
  if (frame[0] != '-') [[likely]] {
    return context_.sink.on_reply(entry.token, frame, entry.times, node_);
  }
  context_.sink.on_error(entry.token, frame, {queue_.front(entry.bytes), entry.times}, node_);
}

// The straight line: short replies, each whole in the buffer, to requests that were sent.
void Pipe::take_short_replies(std::string_view& bytes) {
  for (std::size_t size; (size = resp::short_reply_size(bytes)) > 0 && front_was_sent();) {
    const Entry& entry = requests_.front();
    ++stats_.replies;
    pass_on(entry, bytes.substr(0, size));
    finish_front();
    bytes.remove_prefix(size);
  }
}

void Pipe::take_replies(std::string_view bytes) {
  while (!bytes.empty()) {
    if (torn_ != nullptr) [[unlikely]] {
      if (!take_torn(bytes)) return;
      continue;
    }
    const ScanStatus status = scanner_.scan(bytes);
    if (status == ScanStatus::complete) [[likely]] {
      const std::string_view frame = bytes.substr(0, scanner_.frame_size());
      if (!(streaming_ ? deliver_piece(frame, true) : deliver(frame))) return;
      bytes.remove_prefix(frame.size());
      continue;
    }
    if (status == ScanStatus::error) return disconnect("it sent what is no reply");
    const std::size_t known = bytes.size() + scanner_.missing(bytes.size());
    if (!streaming_ && is_beyond_reason(bytes[0], known)) {
      return disconnect("it sent what is no reply");
    }
    if (streaming_ || (known > kHeldBackMax && is_large_kind(bytes[0]))) {
      const std::size_t settled = scanner_.settled(bytes.size());
      if (!pass_on_settled(bytes)) return;
      bytes.remove_prefix(settled);
    }
    return hold_back(bytes);
  }
}

// Passes on what surely belongs to a large reply.
bool Pipe::pass_on_settled(std::string_view bytes) {
  const std::size_t settled = scanner_.settled(bytes.size());
  scanner_.release(settled);
  return deliver_piece(bytes.substr(0, settled), false);
}

void Pipe::hold_back(std::string_view bytes) {
  if (bytes.empty()) return;
  torn_ = context_.blocks.get(bytes.size() + scanner_.missing(bytes.size()) + kTornStep);
  std::memcpy(torn_->data(), bytes.data(), bytes.size());
  torn_->end = static_cast<std::uint32_t>(bytes.size());
}

// Goes on with a torn reply; false when the connection is given up.
bool Pipe::take_torn(std::string_view& bytes) {
  const std::size_t before = torn_->bytes().size();
  const std::size_t step = std::max(scanner_.missing(before), kTornStep);
  const std::string_view taken = bytes.substr(0, step);
  torn_ = context_.blocks.grow(torn_, torn_->end + taken.size());
  std::memcpy(torn_->data() + torn_->end, taken.data(), taken.size());
  torn_->end += static_cast<std::uint32_t>(taken.size());

  const std::string_view held = torn_->bytes();
  const ScanStatus status = scanner_.scan(held);
  const std::size_t known = held.size() + scanner_.missing(held.size());
  if (status == ScanStatus::error || (!streaming_ && is_beyond_reason(held[0], known)) ||
      held.size() - scanner_.settled(held.size()) > most_of(held[0])) {
    disconnect("it sent what is no reply");
    return false;
  }
  net::Block* const done = torn_;
  if (status == ScanStatus::complete) {
    const std::string_view frame = held.substr(0, scanner_.frame_size());
    bytes.remove_prefix(frame.size() - before);
    torn_ = nullptr;
    const bool good = streaming_ ? deliver_piece(frame, true) : deliver(frame);
    context_.blocks.put(done);
    return good;
  }
  bytes.remove_prefix(taken.size());
  if (!streaming_ && !(known > kHeldBackMax && is_large_kind(held[0]))) return true;
  const std::size_t settled = scanner_.settled(held.size());
  torn_ = nullptr;
  const bool good = pass_on_settled(held);
  if (good) hold_back(held.substr(settled));
  context_.blocks.put(done);
  return good;
}

bool Pipe::deliver(std::string_view frame) {
  scanner_.reset();
  if (frame[0] == '>') [[unlikely]] {
    if (observer_ != nullptr) observer_->on_push(frame);
    return true;
  }
  if (state_ == State::handshaking) [[unlikely]] return answer_handshake(frame);
  if (!front_was_sent()) [[unlikely]] return refuse_reply_to_nothing();
  const Entry entry = requests_.front();
  ++stats_.replies;
  pass_on(entry, frame);
  finish_front();
  return state_ == State::ready;
}

bool Pipe::deliver_piece(std::string_view piece, bool last) {
  if (last) scanner_.reset();
  if (state_ == State::handshaking || !front_was_sent()) return refuse_reply_to_nothing();
  const Entry entry = requests_.front();
  streaming_ = !last;
  if (!entry.expired) context_.sink.on_reply_piece(entry.token, piece, last, node_);
  if (last && entry.times.watch != Watch::none) tell_observer(entry, {});
  if (!last) {
    // While bytes flow, the request has not timed out.
    requests_.front().times.queued = now();
    return true;
  }
  ++stats_.replies;
  finish_front();
  return state_ == State::ready;
}

bool Pipe::answer_handshake(std::string_view frame) {
  switch (handshake_.on_reply(frame)) {
    case Handshake::Status::running: return true;
    case Handshake::Status::done: become_ready(); return true;
    case Handshake::Status::refused:
      disconnect("it refuses the handshake: " + handshake_.refusal());
      return false;
  }
  return false;
}

bool Pipe::refuse_reply_to_nothing() {
  disconnect("it sent a reply to nothing");
  return false;
}

}  // namespace penstock::backend
