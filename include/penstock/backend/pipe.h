// One pipelined connection to one node in one protocol: requests out in order, replies back in
// order. Belongs to one worker. Keeps each request's bytes until its reply is there, so that a
// request that provably did not run can be sent elsewhere, and survives its connection: what was
// never sent, and reads, go out again on the next one; what was sent and could have run comes back
// as lost.
//
//      append() -> [ queued | sent, unanswered ] -> node
//      sink     <- replies, matched by position
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/handshake.h"
#include "penstock/backend/pipe_observer.h"
#include "penstock/backend/reply_sink.h"
#include "penstock/backend/ring.h"
#include "penstock/net/mailbox.h"
#include "penstock/net/reactor.h"
#include "penstock/net/resolver.h"
#include "penstock/net/send_queue.h"
#include "penstock/resp/reply_scanner.h"
#include "penstock/resp/reply_writer.h"
#include "penstock/stats/counter.h"

namespace penstock::backend {

class Pipe;

// Times are microseconds.
struct PipeLimits {
  Micros connect_timeout = 1'000'000;
  Micros request_timeout = 5'000'000;
  Micros retry_deadline = 10'000'000;
  std::chrono::microseconds tcp_keepalive{30'000'000};
  std::size_t queue_bytes = 64 << 20;
};

// Counts of one pipe, readable from its worker's thread only.
struct PipeStats {
  std::uint64_t requests = 0, replies = 0, lost = 0, timeouts = 0, connects = 0, failures = 0;
};

// What the pipes of a worker share.
struct PipeContext {
  net::Reactor& reactor;
  net::BlockPool& blocks;
  net::Resolver& resolver;
  net::Mailbox& mailbox;
  ReplySink& sink;
  PipeLimits limits;
  Credentials credentials;
  std::function<void()> on_trouble;    // a connection failed: the map may be out of date
  std::minstd_rand random;             // jitter of reconnects
  std::vector<Pipe*> dirty{};          // have something to send at the end of the turn
  std::size_t outstanding = 0;         // requests taken and not answered, over all pipes
  // Who looks at a new pipe; null: nobody looks at any.
  std::function<std::shared_ptr<PipeObserver>(Pipe&)> observe{};
};

class Pipe final : public net::Stream {
 public:
  Pipe(PipeContext& context, net::HostPort node, resp::Protocol protocol);
  ~Pipe() override;

  void set_observer(std::shared_ptr<PipeObserver> observer) { observer_ = std::move(observer); }

  const net::HostPort& node() const { return node_; }
  resp::Protocol protocol() const { return protocol_; }

  // Takes a request; its bytes are copied. Connects when there is no connection.
  [[gnu::always_inline]] void append(const ReplyToken& token, std::string_view frame,
                                     const RequestTimes& times) {
    if (times.watch != Watch::none) [[unlikely]] return append_watched(token, frame, times);
    queue_.append_whole(frame);
    push(token, frame.size(), times);
  }
  // Takes a request of the observer's.
  void append_companion(std::string_view frame);
  // Takes a request with the block that holds it, and nothing else.
  void append(const ReplyToken& token, net::Block* frame, const RequestTimes& times);
  // Room for a request of `size` bytes, to be written in place and then appended with commit().
  char* reserve(std::size_t size) { return queue_.reserve(size); }
  void commit(const ReplyToken& token, std::size_t size, const RequestTimes& times);

  // False when so much waits already that the caller must stop reading its client.
  bool has_room() const { return queue_.size() < context_.limits.queue_bytes; }
  // True when it is connected and has room: the usual state of affairs.
  bool takes_more() const { return state_ == State::ready && has_room(); }
  // True when the node could not be reached for longer than a request may wait: fail at once.
  bool is_unreachable() const;
  bool is_ready() const { return state_ == State::ready; }
  // Why there is no connection, in a few words.
  const std::string& trouble() const { return trouble_; }

  void flush();
  // Looks after time-outs and reconnects; about every ten milliseconds.
  void tick();
  // This worker stood still for so long: time that no node is to blame for.
  void excuse(Micros stall);
  // Gives every request that was not sent on a live connection back to the sink.
  void return_unsent();
  // The node has left the map: closes as soon as nothing is in flight. True when it is closed.
  bool retire();
  // Reads no more replies, or does so again.
  void stop_reading();
  void go_on_reading();
  // Closes now and stays closed.
  void shut_down();
  bool is_shut_down() { return retiring_ && !is_open() && observer_is_done(); }

  std::size_t in_flight() const { return requests_.size(); }
  std::size_t queued_bytes() const { return queue_.size(); }
  const PipeStats& stats() const { return stats_; }

 private:
  enum class State : std::uint8_t { idle, resolving, connecting, handshaking, ready, closing,
                                    backing_off };
  struct Entry {
    ReplyToken token;
    std::uint32_t bytes;
    RequestTimes times;
    bool expired;  // true exactly when it was reported as timed out

    bool is_unusual() const {
      return (static_cast<unsigned>(times.watch) | static_cast<unsigned>(expired)) != 0;
    }
  };

  // A request of a connection that is gone.
  struct LeftOver {
    Entry entry;
    std::string bytes;
    bool was_sent;
    Lost why;  // if it cannot be sent again
  };

  void append_watched(const ReplyToken& token, std::string_view frame, RequestTimes times);
  bool pass_on_unusual(const Entry& entry, std::string_view frame);
  void tell_observer(const Entry& entry, std::string_view reply);
  bool observer_is_done() { return observer_ == nullptr || observer_->retire(); }

  void on_connected(int error) override;
  void on_data(std::string_view bytes) override;
  void on_sent(std::size_t count) override;
  void on_end(int error) override;
  void on_closed() override;

  void start_connecting();
  void on_resolved(std::uint32_t attempt, const net::Resolver::Answer& address);
  void start_handshake();
  void become_ready();
  void disconnect(std::string why);
  void back_off();

  void take_short_replies(std::string_view& bytes);
  void take_replies(std::string_view bytes);
  bool take_torn(std::string_view& bytes);
  bool pass_on_settled(std::string_view bytes);
  void hold_back(std::string_view bytes);
  bool deliver(std::string_view frame);
  void pass_on(const Entry& entry, std::string_view frame);
  bool deliver_piece(std::string_view piece, bool last);
  bool answer_handshake(std::string_view frame);
  bool refuse_reply_to_nothing();
  // A reply to a request that was not sent is an attack or a broken node.
  bool front_was_sent() const {
    return !requests_.empty() && queue_.retained() >= requests_.front().bytes;
  }
  void finish_front() {
    queue_.retire(requests_.front().bytes);
    requests_.pop_front();
    --context_.outstanding;
    if (expired_ > 0) [[unlikely]] --expired_;
  }

  void sort_out_requests();
  std::vector<LeftOver> take_all_requests();
  void expire_sent();
  void expire_unsent();
  bool is_open() const {
    return state_ != State::idle && state_ != State::resolving && state_ != State::backing_off;
  }
  [[gnu::always_inline]] void push(const ReplyToken& token, std::size_t size,
                                   const RequestTimes& times) {
    Entry& entry = requests_.emplace_back();
    entry.token = token;
    entry.bytes = static_cast<std::uint32_t>(size);
    entry.times = times;
    entry.expired = false;
    ++context_.outstanding;
    ++stats_.requests;
    mark_dirty();
  }
  void mark_dirty() {
    if (dirty_) [[likely]] return;
    dirty_ = true;
    context_.dirty.push_back(this);
  }
  Micros now() const { return context_.reactor.now_us(); }

  PipeContext& context_;
  const net::HostPort node_;
  const resp::Protocol protocol_;
  State state_ = State::idle;
  bool dirty_ = false;
  bool streaming_ = false;       // true while a large reply passes through in pieces
  bool reads_ = true;            // false while nobody can take its replies
  bool retiring_ = false;        // true once the node has left the map
  bool given_up_ = false;        // true once it was found unreachable, until it is connected
  std::uint8_t failures_ = 0;    // connections that failed, one after the other
  std::uint32_t attempt_ = 0;    // tells an old answer of the resolver from the current one
  Micros state_since_ = 0;
  Micros retry_at_ = 0;          // when backing off ends
  Micros last_heard_ = 0;        // when bytes came from the node, or the pipe was made
  Micros down_since_ = 0;        // when the first of the failures was
  std::size_t sending_bytes_ = 0;  // of the send in flight
  std::size_t expired_ = 0;        // entries at the front that were reported as timed out

  net::SendQueue queue_;         // bytes of requests_, in the same order
  Ring<Entry> requests_;
  resp::ReplyScanner scanner_;
  net::Block* torn_ = nullptr;   // the beginning of a reply whose end has not come
  Handshake handshake_;
  std::string trouble_;
  PipeStats stats_;
  std::shared_ptr<PipeObserver> observer_;  // or null
  // For the resolver's answer, which may come when the pipe is gone.
  std::shared_ptr<Pipe*> self_ = std::make_shared<Pipe*>(this);
};

}  // namespace penstock::backend
