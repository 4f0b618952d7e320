// One client connection: bytes in -> frames -> dispatcher; replies -> their turn -> bytes out.
// Only wires its parts: Input (torn frames), ReplySequencer (order), SendQueue (output).
// Belongs to one worker; the session table owns it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>

#include "penstock/admin/client_state.h"
#include "penstock/backend/reply_token.h"
#include "penstock/cache/reply_cache.h"
#include "penstock/net/reactor.h"
#include "penstock/net/send_queue.h"
#include "session/input.h"
#include "session/read_names.h"
#include "session/reply_sequencer.h"
#include "session/session_context.h"

namespace penstock::session {

// What became of a request that was dispatched: taken, or left in the input until later.
enum class Taken : std::uint8_t { yes, wait_for_replies, wait_for_pipe };

class Session final : public net::Stream {
 public:
  // A request of this size that lies in the input is handed to a pipe instead of being copied.
  static constexpr std::size_t kAdoptBytes = 16 * 1024;

  Session(SessionContext& context, std::uint32_t index, std::uint32_t generation);

  std::uint32_t index() const { return index_; }
  std::uint32_t generation() const { return generation_; }
  backend::ReplyToken token(std::uint32_t sequence,
                            std::uint32_t part = backend::ReplyToken::kWhole) const {
    return {index_, generation_, sequence, part & backend::ReplyToken::kWhole,
            context_.services.worker & backend::ReplyToken::kWorkersMax};
  }
  admin::ClientState& state() { return state_; }
  admin::ClientFacts facts();
  resp::Protocol protocol() const { return state_.protocol; }
  ReplySequencer& sequencer() { return sequencer_; }
  bool is_closing() const { return closing_; }
  bool is_draining() const { return draining_; }
  // Whether a request is not answered, or its answer is of this turn.
  bool is_busy() const { return dirty_ || !sequencer_.empty(); }

  // Whether its requests go through the shared pipes.
  bool shares() const { return shares_; }
  // Where a request for a node goes.
  sharding::Outlet outlet(cluster::NodeIndex node, cluster::Slot slot) {
    if (shares_) return context_.shared.outlet(node, protocol(), slot);
    return sharding::Outlet(context_.pipes.get(node, protocol(), slot));
  }
  // A request whose outcome is unknown may still run; what follows it must not overtake it through
  // other pipes.
  void keep_pipes();

  // Makes a place in the order of replies for the request being dispatched; its sequence number.
  std::uint32_t open(const command::Command& command, cluster::Slot slot, bool several_keys);
  std::uint32_t open_unknown();
  // The whole reply to a request, or pieces of it; a reply that comes early waits for its turn.
  void reply(std::uint32_t sequence, std::string_view frame) {
    reply_piece(sequence, frame, true);
  }
  // The same for a whole reply that is no error, on the straight line.
  void reply_usual(std::uint32_t sequence, Place& place, std::string_view frame);
  void reply_piece(std::uint32_t sequence, std::string_view piece, bool last);

  // True when a request of this slot must wait for earlier ones, because they may not have been
  // sent to where this one would go, or may have to be sent again.
  bool must_wait(cluster::Slot slot) {
    if (routes_version_ != context_.router.version()) [[unlikely]] note_new_routes();
    return careful_ && conflicts(slot);
  }
  // The request at `sequence` was refused where it was sent and will be sent elsewhere.
  void note_retry(std::uint32_t sequence);
  // A request was answered: earlier ones of its slot that were refused must not run any more.
  void note_answered(std::uint32_t sequence, cluster::Slot slot) {
    if (retrying_ > 0) [[unlikely]] mark_overtaken(sequence, slot);
  }
  // Whether a request that was refused must wait, because a later one of its slot that was sent
  // with it may still run.
  bool may_be_overtaken(std::uint32_t sequence, cluster::Slot slot);
  // Whether a request with this slot is unanswered, other than reads that wait with `cache_mark`.
  // True also when there are too many to look.
  bool has_unanswered(cluster::Slot slot, std::uint32_t cache_mark = 0);
  // Whether a write came behind a request.
  bool has_later_write(std::uint32_t sequence);
  // Which kept replies may be served: those that came the way its own requests go.
  cache::ViewId view() const {
    return view_of(shares_ ? std::nullopt : std::optional(context_.services.worker),
                          protocol());
  }
  // False for a while after that way changed: what it has seen may be newer than what is kept.
  bool trusts_cache();
  // The whole reply to the request being dispatched, which needs no place in the order unless
  // others are before it.
  void answer(const command::Command& command, std::string_view frame);
  // Whether a request before `sequence` with the same slot is still unanswered.
  bool has_earlier(std::uint32_t sequence, cluster::Slot slot);

  // During a dispatch: the block that holds exactly this frame, for a pipe to take over; or null.
  net::Block* adopt_request(std::string_view frame);

  // So many bytes more are held of the parts of a split command.
  void note_part_bytes(std::size_t bytes) {
    part_bytes_ += bytes;
    mark_dirty();  // for the limits
  }

  // Goes on with requests that had to wait.
  void resume();
  // Hands what is due to the kernel.
  void flush();
  // Since when replies have waited for more of them; 0: none do.
  net::Nanos held_since() const { return held_since_; }
  void mark_dirty() {
    if (dirty_ || closing_) return;
    dirty_ = true;
    context_.dirty.push_back(this);
  }
  // Finishes what is in flight, then closes. Without requests in flight that is at once.
  void drain();
  // It has been idle for too long; one that does not even read its replies gets no more of them.
  void expire() { output_.empty() ? drain() : close(); }
  // Closes at the end of the turn, whatever is in flight.
  void doom();
  void close();
  // About once a second: gives back memory that an idle client does not need, and closes one that
  // was only waited for to read its last replies.
  void sweep();

  void on_connected(int) override {}
  void on_data(std::string_view bytes) override;
  void on_sent(std::size_t count) override;
  void on_end(int error) override;
  void on_closed() override;

 private:
  enum class Wait : std::uint8_t { none, replies, pipe };
  static constexpr cache::ViewId kNoView = 0xffff;

  std::size_t take_frames(resp::RequestScanner& scanner, std::string_view bytes);
  void take_torn_frame(std::string_view& bytes);
  void take_backlog();
  void keep(std::string_view bytes);
  void release_input();
  bool dispatch(const resp::Request& request);
  bool take_one(const resp::Request& request);
  void wait_for(Taken taken);
  // How many more requests may be taken now.
  std::size_t room_for_requests() const {
    const config::Config& config = context_.config;
    const std::size_t window = config.limits.inflight_per_client;
    const bool reads = unread_bytes() < config.limits.client_output_soft;
    return reads && sequencer_.size() < window ? window - sequencer_.size() : 0;
  }
  void wait_to_take_more();
  // Whether it is to use the shared pipes, as things stand.
  bool wants_shared() const {
    if (context_.mode == sharding::Mode::mixed) return depth_score_ < 0;
    return context_.mode == sharding::Mode::shared;
  }
  void choose_pipes();
  bool switch_pipes();
  void note_depth();
  void wait(Wait wait);
  void go_on_if_waiting();
  void fail_protocol(const std::string& text);
  void close_if_done();
  resp::RequestLimits request_limits() const {
    return {static_cast<std::int64_t>(context_.config.limits.bulk), !state_.authenticated};
  }
  // Bytes of replies that the client has not read yet, or that wait for their turn or other parts.
  std::size_t unread_bytes() const {
    return output_.size() + sequencer_.held_bytes() + part_bytes_;
  }

  void apply_reply_mode(Place& place);
  void note_several_keys(Place& place);
  void enforce_output_limit();
  void finish(Place& place);
  void finish_unusual(Place& place);
  void end_own_write(Place& place);
  void advance();
  void pass_on_held(net::Block* block);
  void note_new_routes();
  bool conflicts(cluster::Slot slot);
  void mark_overtaken(std::uint32_t sequence, cluster::Slot slot);
  bool is_read(const Place& place) const;
  void recycle_fan_out(Place& place);
  void linger();
  bool waits_for_more_replies();
  bool is_too_large(std::size_t frame_bytes);
  bool uses(const Place& place, cluster::Slot slot);
  void update_careful(std::uint32_t head);

  SessionContext& context_;
  const std::uint32_t index_;
  const std::uint32_t generation_;
  Wait wait_ = Wait::none;
  bool dirty_ = false;
  bool queued_ready_ = false;
  bool closing_ = false;
  bool draining_ = false;        // no more requests are read; closes when all are answered
  bool stopping_ = false;        // draining because the proxy wants it
  bool careful_ = false;         // true while must_wait() has to look closer
  bool may_adopt_ = false;       // true while a torn frame, now whole, is dispatched
  bool doomed_ = false;          // closes at the end of the turn
  bool shares_ = false;          // true while its requests go through the shared pipes
  std::int8_t depth_score_ = 0;  // above 0: it pipelines, below: it does not
  std::uint8_t switch_tries_ = 0;   // to change the pipes while something was in flight
  std::uint32_t depth_mark_ = 0;    // the next request's number at the last receive
  std::uint32_t retrying_ = 0;      // places in flight that are being sent again
  std::uint32_t several_keys_ = 0;  // places in flight that may have to be
  std::uint32_t routes_version_ = 0;
  std::uint32_t active_period_ = 0;   // when it was last counted as active
  std::uint32_t old_routes_end_ = 0;  // places before this one were routed by an older map
  bool old_routes_ = false;
  std::size_t sending_bytes_ = 0;
  std::size_t part_bytes_ = 0;      // received of the parts of split commands in flight
  std::size_t room_ = 0;            // for requests, while frames are taken
  net::Nanos lingering_since_ = 0;  // since when it is only waited for; 0: it is not
  net::Nanos held_since_ = 0;
  net::Nanos keep_pipes_until_ = 0;
  net::Nanos distrusts_until_ = 0;   // what the cache has kept
  cache::ViewId last_view_ = kNoView;
  admin::ClientState state_;
  ReplySequencer sequencer_;
  net::SendQueue output_;
  std::unique_ptr<Input> input_;
};

[[gnu::always_inline]] inline std::uint32_t Session::open(const command::Command& command,
                                                          cluster::Slot slot, bool several_keys) {
  context_.stats.by_command[command.index].calls.add();
  state_.last_command = command.index;
  Place& place = sequencer_.open();
  place.begun = context_.now();
  place.slot = slot;
  place.command = command.index;
  if (state_.reply_mode != admin::ReplyMode::on) [[unlikely]] apply_reply_mode(place);
  if (several_keys) [[unlikely]] note_several_keys(place);
  return sequencer_.next() - 1;
}

[[gnu::always_inline]] inline void Session::finish(Place& place) {
  const backend::Micros total = context_.now() - place.begun;
  context_.stats.by_command[place.command].usec.add(total);
  context_.stats.latency.record(total);
  context_.stats.proxy_latency.record(total - std::min(total, place.backend_us));
  if (careful_ || place.fan_out != nullptr || place.cache_mark != 0) [[unlikely]] {
    finish_unusual(place);
  }
}

inline void Session::reply_usual(std::uint32_t sequence, Place& place, std::string_view frame) {
  if (place.silent || wait_ != Wait::none) [[unlikely]] return reply(sequence, frame);
  if (sequence != sequencer_.head()) {
    note_answered(sequence, place.slot);
    sequencer_.hold(place, frame);
    place.done = true;
    return;
  }
  output_.append(frame);
  finish(place);
  sequencer_.pop_head();
  if (!sequencer_.empty() && sequencer_.at(sequencer_.head()).is_early()) advance();
  mark_dirty();
}

}  // namespace penstock::session
