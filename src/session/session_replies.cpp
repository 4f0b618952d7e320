// The reply side of a session: places in the order of requests, and what must wait for what.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "penstock/log/log.h"
#include "session/fan_out.h"
#include "session/own_writes.h"
#include "session/session.h"

namespace penstock::session {
namespace {

// An early reply of this size moves to the output as a block instead of being copied.
constexpr std::size_t kMoveBytes = 2048;

// Many smaller answers may be given before somebody looks how much the client has not read.
constexpr std::size_t kLookAgain = 1024;

// A client with more requests in flight is not answered from the cache: nobody looks through them.
constexpr std::uint32_t kPlacesLookedAt = 128;

}  // namespace

// A place for a reply to what is no known command.
std::uint32_t Session::open_unknown() {
  Place& place = sequencer_.open();
  place.begun = context_.now();
  place.command = stats::kCommandsMax - 1;
  apply_reply_mode(place);
  return sequencer_.next() - 1;
}

void Session::note_several_keys(Place& place) {
  place.several_keys = true;
  ++several_keys_;
  careful_ = true;
}

void Session::apply_reply_mode(Place& place) {
  place.silent = state_.reply_mode != admin::ReplyMode::on;
  if (state_.reply_mode == admin::ReplyMode::skip) state_.reply_mode = admin::ReplyMode::on;
}

void Session::reply_piece(std::uint32_t sequence, std::string_view piece, bool last) {
  if (closing_ || doomed_) return;
  Place& place = sequencer_.at(sequence);
  if (!place.begun_reply && !piece.empty() && (piece[0] == '-' || piece[0] == '!')) {
    context_.stats.count_error(piece);
    context_.stats.by_command[place.command].failed.add();
  }
  place.begun_reply = true;
  room_ = 1;  // what was answered here may have been large: take_frames() is to look again
  if (sequence == sequencer_.head()) {
    if (!place.silent) output_.append(piece);
    if (last) {
      finish(place);
      sequencer_.pop_head();
      if (!sequencer_.empty()) advance();
    }
  } else {
    if (!place.silent) sequencer_.hold(place, piece);
    place.done = last;
  }
  mark_dirty();
  go_on_if_waiting();
}

void Session::finish_unusual(Place& place) {
  if (place.fan_out != nullptr) recycle_fan_out(place);
  if (place.cache_mark != 0) end_own_write(place);
  retrying_ -= place.retrying ? 1 : 0;
  several_keys_ -= place.several_keys ? 1 : 0;
  update_careful(sequencer_.head() + 1);
}

void Session::enforce_output_limit() {
  if (unread_bytes() <= context_.config.limits.client_output) return;
  context_.stats.clients_closed_output.add();
  LOG_LIMITED(warn, "client {}: closed, its unread replies are beyond limits.client_output",
              state_.id);
  doomed_ = true;
}

// Passes on what was held for the places whose turn it is now.
void Session::advance() {
  while (!sequencer_.empty()) {
    Place& place = sequencer_.at(sequencer_.head());
    if (place.held != nullptr) pass_on_held(sequencer_.take_held(place));
    if (!place.done) return;
    finish(place);
    sequencer_.pop_head();
  }
}

void Session::pass_on_held(net::Block* block) {
  while (block != nullptr) {
    net::Block* const next = block->next;
    block->next = nullptr;
    if (block->bytes().size() >= kMoveBytes) {
      output_.adopt(block);
    } else {
      output_.append(block->bytes());
      context_.blocks.put(block);
    }
    block = next;
  }
}

void Session::go_on_if_waiting() {
  if (wait_ != Wait::replies || queued_ready_ || closing_) return;
  queued_ready_ = true;
  context_.ready.push_back(this);
}

void Session::note_new_routes() {
  routes_version_ = context_.router.version();
  if (sequencer_.empty()) return;
  old_routes_ = true;
  old_routes_end_ = sequencer_.next();
  careful_ = true;
}

void Session::note_retry(std::uint32_t sequence) {
  Place& place = sequencer_.at(sequence);
  if (place.retrying) return;
  place.retrying = true;
  ++retrying_;
  careful_ = true;
}

// `head`: the oldest place that is left.
void Session::update_careful(std::uint32_t head) {
  if (old_routes_ && static_cast<std::int32_t>(head - old_routes_end_) >= 0) old_routes_ = false;
  careful_ = old_routes_ || retrying_ > 0 || several_keys_ > 0;
}

bool Session::conflicts(cluster::Slot slot) {
  if (slot == cluster::kNoSlot) return false;
  for (std::uint32_t i = sequencer_.head(); i != sequencer_.next(); ++i) {
    const Place& place = sequencer_.at(i);
    if (place.done || !uses(place, slot)) continue;
    const bool old_route = old_routes_ && static_cast<std::int32_t>(i - old_routes_end_) < 0;
    if (place.retrying || place.several_keys || old_route) return true;
  }
  return false;
}

// Two reads may change places.
void Session::mark_overtaken(std::uint32_t sequence, cluster::Slot slot) {
  if (slot == cluster::kNoSlot) return;
  const bool read = is_read(sequencer_.at(sequence));
  for (std::uint32_t i = sequencer_.head(); i != sequence; ++i) {
    Place& place = sequencer_.at(i);
    if (!place.refused || !place.retrying || place.done || !uses(place, slot)) continue;
    if (!read || !is_read(place)) place.overtaken = true;
  }
}

bool Session::may_be_overtaken(std::uint32_t sequence, cluster::Slot slot) {
  const Place& refused = sequencer_.at(sequence);
  if (!refused.refused) return false;
  for (std::uint32_t i = sequence + 1; i != sequencer_.next(); ++i) {
    const Place& later = sequencer_.at(i);
    if (later.done || later.retrying || !uses(later, slot)) continue;
    if (!is_read(later) || !is_read(refused)) return true;
  }
  return false;
}

void Session::end_own_write(Place& place) {
  const command::CacheRole role = context_.commands.all()[place.command].cache_role;
  if (role != command::CacheRole::read) context_.own_writes->end(place.cache_mark);
  place.cache_mark = 0;
}

void Session::answer(const command::Command& command, std::string_view frame) {
  if (frame.size() > kLookAgain) room_ = 1;  // as in reply_piece()
  if (!sequencer_.empty() || wait_ != Wait::none ||
      state_.reply_mode != admin::ReplyMode::on) {
    return reply(open(command, cluster::kNoSlot, false), frame);
  }
  context_.stats.by_command[command.index].calls.add();
  context_.stats.latency.record(0);
  context_.stats.proxy_latency.record(0);
  state_.last_command = command.index;
  output_.append(frame);
  mark_dirty();
}

bool Session::has_unanswered(cluster::Slot slot, std::uint32_t cache_mark) {
  if (sequencer_.empty()) return false;
  if (sequencer_.size() > kPlacesLookedAt) return true;
  for (std::uint32_t i = sequencer_.head(); i != sequencer_.next(); ++i) {
    const Place& place = sequencer_.at(i);
    if (place.done || !uses(place, slot)) continue;
    if (cache_mark == 0 || place.cache_mark != cache_mark || !is_read(place)) return true;
  }
  return false;
}

bool Session::has_later_write(std::uint32_t sequence) {
  for (std::uint32_t i = sequence + 1; i != sequencer_.next(); ++i) {
    if (!sequencer_.at(i).done && !is_read(sequencer_.at(i))) return true;
  }
  return false;
}

bool Session::trusts_cache() {
  if (view() == last_view_) [[likely]] return context_.reactor.now() >= distrusts_until_;
  const bool first = std::exchange(last_view_, view()) == kNoView;
  if (!first) distrusts_until_ = context_.reactor.now() + context_.services.tracking.max_staleness;
  return first;
}

void Session::recycle_fan_out(Place& place) {
  part_bytes_ -= place.fan_out->received_bytes();
  context_.fan_outs->put(place.fan_out);
  place.fan_out = nullptr;
}

bool Session::is_read(const Place& place) const {
  return context_.commands.all()[place.command].has(command::kFlagReadonly);
}

bool Session::has_earlier(std::uint32_t sequence, cluster::Slot slot) {
  for (std::uint32_t i = sequencer_.head(); i != sequence; ++i) {
    const Place& place = sequencer_.at(i);
    if (!place.done && uses(place, slot)) return true;
  }
  return false;
}

bool Session::uses(const Place& place, cluster::Slot slot) {
  return place.slot == slot || (place.fan_out != nullptr && place.fan_out->has_slot(slot));
}

}  // namespace penstock::session
