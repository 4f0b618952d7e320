// One client connection: its input, its output and its end. Replies and their order are in
// session_replies.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "penstock/log/log.h"
#include "penstock/net/sockets.h"
#include "session/dispatcher.h"
#include "session/fan_out.h"

namespace penstock::session {
namespace {

using resp::ScanStatus;

// How much is copied at least behind the beginning of a torn frame, to find out its length.
constexpr std::size_t kTornStep = 512;

// A client that does not read its last replies is not waited for any longer.
constexpr net::Nanos kLingerMax = 30'000'000'000;

constexpr std::size_t kPiecesMax = 16;       // of one send
constexpr std::size_t kHeldOutputMax = 16 * 1024;  // of replies that wait for more
constexpr std::size_t kSpareInputsMax = 64;  // per worker

std::int64_t milliseconds(net::Nanos now) { return now / 1'000'000; }

}  // namespace

Session::Session(SessionContext& context, std::uint32_t index, std::uint32_t generation)
    : Stream(net::StreamKind::client), context_(context), index_(index), generation_(generation),
      sequencer_(context.blocks), output_(context.blocks) {
  state_.connected_at_ms = state_.active_at_ms = milliseconds(context.reactor.now());
  routes_version_ = context.router.version();
}

admin::ClientFacts Session::facts() {
  const std::size_t query = input_ == nullptr ? 0 : input_->size();
  const std::size_t output = unread_bytes();
  return {state_, fd(), query, output, sequencer_.size(), sizeof(*this) + query + output, shares_};
}

void Session::on_data(std::string_view bytes) {
  if (closing_ || state_.close_requested || lingering_since_ > 0) return;
  state_.active_at_ms = milliseconds(context_.reactor.now());
  ++context_.activity.receives;
  if (active_period_ != context_.period) {
    active_period_ = context_.period;
    ++context_.activity.active_clients;
  }
  if (context_.mode != sharding::Mode::worker || shares_) [[unlikely]] choose_pipes();
  if (input_ == nullptr && wait_ == Wait::none) [[likely]] {
    context_.scanner.reset();
    bytes.remove_prefix(take_frames(context_.scanner, bytes));
  }
  while (!bytes.empty() && !state_.close_requested) {
    if (wait_ != Wait::none || input_ == nullptr) return keep(bytes);
    take_torn_frame(bytes);
  }
}

// Takes the frames that are whole; returns how many bytes they had.
std::size_t Session::take_frames(resp::RequestScanner& scanner, std::string_view bytes) {
  const std::size_t size = bytes.size();
  for (room_ = room_for_requests(); !bytes.empty(); --room_) {
    if (room_ == 0 && (room_ = room_for_requests()) == 0) [[unlikely]] {
      wait_to_take_more();
      break;
    }
    resp::Request request;
    if (state_.authenticated) request = scanner.scan_usual(bytes);
    std::size_t frame = request.frame().size();
    const bool usual = frame > 0;
    if (!usual) [[unlikely]] {
      const ScanStatus status = scanner.scan(bytes, request_limits());
      if (status == ScanStatus::incomplete) break;
      if (status == ScanStatus::error) {
        fail_protocol(scanner.error());
        return size;
      }
      request = scanner.request(bytes);
      frame = scanner.frame_size();
      if (is_too_large(frame)) return size;
    }
    const bool taken = dispatch(request);
    if (!usual) [[unlikely]] scanner.reset();
    if (!taken) [[unlikely]] break;
    bytes.remove_prefix(frame);
    if (state_.close_requested) [[unlikely]] return size;
  }
  return size - bytes.size();
}

// Keeps bytes that cannot be handled yet: the beginning of a frame, or everything while waiting.
void Session::keep(std::string_view bytes) {
  if (input_ == nullptr) {
    if (context_.spare_inputs.empty()) {
      input_ = std::make_unique<Input>(context_.blocks);
    } else {
      input_ = std::move(context_.spare_inputs.back());
      context_.spare_inputs.pop_back();
    }
  }
  input_->append(bytes, 0);
  if (wait_ != Wait::none) return;  // whole requests that must wait; no more are read
  input_->scanner.scan(input_->bytes(), {});
  is_too_large(input_->size());
}

// Goes on with a frame whose beginning is in the input.
void Session::take_torn_frame(std::string_view& bytes) {
  resp::RequestScanner& scanner = input_->scanner;
  const std::size_t before = input_->size();
  const std::string_view taken = bytes.substr(0, std::max(scanner.needed(), kTornStep));
  input_->append(taken, scanner.needed());
  const ScanStatus status = scanner.scan(input_->bytes(), request_limits());
  if (status == ScanStatus::error) return fail_protocol(scanner.error());
  if (status == ScanStatus::incomplete) {
    bytes.remove_prefix(taken.size());
    is_too_large(input_->size());
    return;
  }
  const std::size_t frame = scanner.frame_size();
  if (is_too_large(frame)) return bytes.remove_prefix(bytes.size());
  may_adopt_ = true;
  const bool done = take_one(scanner.request(input_->bytes()));
  may_adopt_ = false;
  if (!done) {
    scanner.reset();
    bytes.remove_prefix(taken.size());
    return keep(std::exchange(bytes, {}));
  }
  bytes.remove_prefix(frame - before);
  release_input();
  if (state_.close_requested) return;
  context_.scanner.reset();
  bytes.remove_prefix(take_frames(context_.scanner, bytes));
}

void Session::release_input() {
  input_->clear();
  if (context_.spare_inputs.size() < kSpareInputsMax) {
    context_.spare_inputs.push_back(std::move(input_));
  }
  input_.reset();
}

net::Block* Session::adopt_request(std::string_view frame) {
  if (!may_adopt_ || frame.size() < kAdoptBytes) return nullptr;
  if (frame.data() != input_->bytes().data()) return nullptr;  // it was rewritten
  return input_->release(frame.size());
}

// False when the request must stay in the input.
inline bool Session::dispatch(const resp::Request& request) {
  const Taken taken = context_.dispatcher->dispatch(*this, request);
  if (taken == Taken::yes) [[likely]] return true;
  wait_for(taken);
  return false;
}

bool Session::take_one(const resp::Request& request) {
  if (room_for_requests() > 0) return dispatch(request);
  wait_to_take_more();
  return false;
}

void Session::wait_for(Taken taken) {
  const bool order = taken == Taken::wait_for_replies;
  (order ? context_.stats.stalled_order : context_.stats.stalled_pipe).add();
  wait(order ? Wait::replies : Wait::pipe);
}

void Session::wait_to_take_more() {
  const bool window = sequencer_.size() >= context_.config.limits.inflight_per_client;
  (window ? context_.stats.stalled_in_flight : context_.stats.stalled_output).add();
  wait(Wait::replies);
}

void Session::wait(Wait wait) {
  wait_ = wait;
  context_.reactor.stop_receive(*this);
  if (wait == Wait::pipe) context_.waiting.push_back(this);
}

void Session::resume() {
  queued_ready_ = false;
  if (closing_ || wait_ == Wait::none) return;
  wait_ = Wait::none;
  if (wants_shared() != shares_ && !switch_pipes()) {
    wait_ = Wait::replies;  // until all is answered
    return;
  }
  if (input_ != nullptr) take_backlog();
  const bool reads = wait_ == Wait::none && !draining_ && !state_.close_requested;
  if (reads) context_.reactor.start_receive(*this);
  close_if_done();
}

void Session::take_backlog() {
  input_->scanner.reset();
  const std::size_t used = take_frames(input_->scanner, input_->bytes());
  if (used >= input_->size()) return release_input();
  input_->drop_front(used);
}

void Session::fail_protocol(const std::string& text) {
  context_.stats.protocol_errors.add();
  LOG_LIMITED(info, "client {}: protocol error: {}", state_.id, text);
  state_.close_requested = true;
  context_.reactor.stop_receive(*this);
  std::string error;
  resp::ReplyWriter(error, protocol()).error("ERR Protocol error: " + text);
  reply(open_unknown(), error);
}

// A request beyond limits.client_query ends its client, whether it is whole yet or not.
bool Session::is_too_large(std::size_t frame_bytes) {
  if (frame_bytes <= context_.config.limits.client_query) return false;
  context_.stats.clients_closed_query.add();
  LOG_LIMITED(warn, "client {}: closed, its request is beyond limits.client_query", state_.id);
  doom();
  return true;
}

// Closes at the end of the turn without waiting for anything: callers up the stack go on safely.
void Session::doom() {
  doomed_ = true;
  state_.close_requested = true;
  mark_dirty();
}

void Session::flush() {
  dirty_ = false;
  enforce_output_limit();
  if (doomed_) return close();
  if (waits_for_more_replies()) return;
  state_.active_at_ms = milliseconds(context_.reactor.now());
  while (!sending() && output_.unsent() > 0) {
    iovec pieces[kPiecesMax];
    const std::size_t count = output_.gather(pieces);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
    output_.mark_sent(bytes);
    const std::size_t sent = context_.reactor.send(*this, {pieces, count});
    if (sent == net::Reactor::kInFlight) {
      sending_bytes_ = bytes;
      return;
    }
    if (sent < bytes) output_.unsend(bytes - sent);
    output_.retire(sent);
  }
  go_on_if_waiting();
  close_if_done();
}

// The first replies of a pipeline wait for those that other nodes send a little later: one packet
// to the client instead of several. Only while the worker is busy enough to batch at all.
bool Session::waits_for_more_replies() {
  const bool partial = !sequencer_.empty() && output_.unsent() > 0 &&
                       output_.unsent() < kHeldOutputMax && !draining_;
  if (context_.hold_replies == 0 || !partial || sending()) {
    held_since_ = 0;
    return false;
  }
  if (held_since_ == 0) {
    held_since_ = context_.reactor.now();
    context_.holding.push_back({this, held_since_});
  }
  if (context_.reactor.now() - held_since_ < context_.hold_replies) return true;
  held_since_ = 0;
  return false;
}

void Session::on_sent(std::size_t count) {
  output_.unsend(std::exchange(sending_bytes_, 0) - count);
  output_.retire(count);
  if (output_.unsent() > 0) mark_dirty();
  go_on_if_waiting();
  close_if_done();
}

// A client that closed its sending side still gets its replies, as `printf ... | nc` expects.
void Session::on_end(int error) {
  if (closing_) return;
  if (error != 0 || lingering_since_ > 0) return close();
  draining_ = true;
  close_if_done();
}

void Session::drain() {
  if (closing_ || lingering_since_ > 0) return;
  draining_ = stopping_ = true;
  context_.reactor.stop_receive(*this);
  close_if_done();
}

void Session::close_if_done() {
  if (closing_ || !(draining_ || state_.close_requested)) return;
  const bool backlog = wait_ != Wait::none && !state_.close_requested;
  if (!sequencer_.empty() || !output_.empty() || backlog || lingering_since_ > 0) return;
  if (stopping_ && net::has_unsent_bytes(fd())) return linger();
  close();
}

// Closing a socket with bytes in it that nobody read resets the connection, and the replies that
// are on their way are lost. So the client's requests are read and dropped until it has them.
void Session::linger() {
  lingering_since_ = context_.reactor.now();
  ::shutdown(fd(), SHUT_WR);
  context_.reactor.start_receive(*this);
}

void Session::sweep() {
  sequencer_.release_if_empty();
  if (lingering_since_ == 0 || closing_) return;
  const bool over = context_.reactor.now() - lingering_since_ > kLingerMax;
  if (over || !net::has_unsent_bytes(fd())) close();
}

void Session::close() {
  if (closing_) return;
  closing_ = true;
  std::erase(context_.dirty, this);
  std::erase(context_.ready, this);
  std::erase(context_.waiting, this);
  std::erase_if(context_.holding, [this](const auto& each) { return each.session == this; });
  for (std::uint32_t i = sequencer_.head(); i != sequencer_.next(); ++i) {
    if (sequencer_.at(i).fan_out != nullptr) recycle_fan_out(sequencer_.at(i));
    if (sequencer_.at(i).cache_mark != 0) end_own_write(sequencer_.at(i));
  }
  sequencer_.clear();
  if (input_ != nullptr) release_input();
  context_.reactor.close(*this);
}

void Session::on_closed() { context_.on_closed(index_); }

}  // namespace penstock::session
