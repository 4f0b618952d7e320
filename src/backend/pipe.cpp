// One pipelined connection to one node: taking requests, connecting, time-outs, losing connections.
// The reply side is in pipe_replies.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/backend/pipe.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "penstock/log/check.h"
#include "penstock/log/log.h"
#include "penstock/net/sockets.h"

namespace penstock::backend {
namespace {

// Between attempts to connect; doubles up to the longest, with jitter.
constexpr Micros kFirstBackOff = 50'000;
constexpr Micros kLongestBackOff = 1'000'000;

// A read that lost so many connections may be what breaks them: its reply may be no reply.
constexpr std::uint8_t kReadAttemptsMax = 5;

constexpr std::size_t kPiecesMax = 16;  // of one send: up to 1 MiB

// Both are modulo 2^32, so only their difference means something.
bool is_over(Micros now, Micros since, Micros limit) { return now - since > limit; }
bool is_due(Micros now, Micros when) { return static_cast<std::int32_t>(now - when) >= 0; }

RequestTimes unwatched(RequestTimes times) {
  times.watch = Watch::none;
  return times;
}

// One number for a session among those of all workers.
std::uint64_t session_of(const ReplyToken& token) {
  return std::uint64_t{token.worker} << 32 | token.session;
}

}  // namespace

Pipe::Pipe(PipeContext& context, net::HostPort node, resp::Protocol protocol)
    : Stream(net::StreamKind::node), context_(context), node_(std::move(node)),
      protocol_(protocol), last_heard_(now()), queue_(context.blocks) {}

Pipe::~Pipe() = default;

// What is large, or written in place, is not watched.
void Pipe::append(const ReplyToken& token, net::Block* frame, const RequestTimes& times) {
  const std::size_t size = frame->end - frame->begin;
  queue_.adopt(frame);
  push(token, size, unwatched(times));
}

void Pipe::commit(const ReplyToken& token, std::size_t size, const RequestTimes& times) {
  queue_.commit(size);
  push(token, size, unwatched(times));
}

void Pipe::append_watched(const ReplyToken& token, std::string_view frame, RequestTimes times) {
  const bool can = observer_ != nullptr && state_ == State::ready;
  if (!can || !observer_->before(frame, times.watch)) return append(token, frame, unwatched(times));
  queue_.append_whole(frame);
  push(token, frame.size(), times);
  observer_->after(frame, times.watch);
}

void Pipe::append_companion(std::string_view frame) {
  queue_.append_whole(frame);
  push(ReplyToken{}, frame.size(), {now(), now(), 0, false, Watch::companion});
}

bool Pipe::is_unreachable() const {
  if (given_up_) return true;
  return state_ != State::ready && failures_ > 0 &&
         is_over(now(), down_since_, context_.limits.retry_deadline);
}

void Pipe::flush() {
  dirty_ = false;
  if (state_ == State::idle && !retiring_) return start_connecting();
  if (state_ != State::ready) return;
  while (!sending() && queue_.unsent() > 0) {
    iovec pieces[kPiecesMax];
    const std::size_t count = queue_.gather(pieces);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
    queue_.mark_sent(bytes);
    const std::size_t sent = context_.reactor.send(*this, {pieces, count});
    if (sent == net::Reactor::kInFlight) {
      sending_bytes_ = bytes;
    } else if (sent < bytes) {
      queue_.unsend(bytes - sent);
    }
  }
}

void Pipe::on_sent(std::size_t count) {
  if (sending_bytes_ == 0) {  // the handshake's bytes are not in the queue
    const bool cut_short = count != handshake_.bytes().size();
    if (state_ == State::handshaking && cut_short) disconnect("handshake cut short");
    return;
  }
  queue_.unsend(std::exchange(sending_bytes_, 0) - count);
  if (queue_.unsent() > 0) mark_dirty();
}

void Pipe::start_connecting() {
  state_ = State::resolving;
  state_since_ = now();
  const std::uint32_t attempt = ++attempt_;
  if (const auto numeric = net::numeric_address(node_.host, node_.port)) {
    return on_resolved(attempt, numeric);
  }
  net::Mailbox& mailbox = context_.mailbox;
  const std::weak_ptr<Pipe*> self = self_;
  context_.resolver.resolve(node_, [&mailbox, self, attempt](net::Resolver::Answer address) {
    mailbox.post([self, attempt, address] {
      if (const auto pipe = self.lock()) (*pipe)->on_resolved(attempt, address);
    });
  });
}

void Pipe::on_resolved(std::uint32_t attempt, const net::Resolver::Answer& address) {
  if (attempt != attempt_ || state_ != State::resolving) return;
  state_since_ = now();
  if (!address) {
    trouble_ = "its name does not resolve";
    return back_off();
  }
  if (!context_.reactor.connect(*this, *address)) {
    trouble_ = std::strerror(errno);
    return back_off();
  }
  net::set_node_options(fd(), context_.limits.tcp_keepalive);
  state_ = State::connecting;
}

void Pipe::on_connected(int error) {
  if (error != 0) return disconnect(std::strerror(error));
  ++stats_.connects;
  context_.reactor.start_receive(*this);
  handshake_.begin(protocol_, context_.credentials);
  if (handshake_.empty()) return become_ready();
  state_ = State::handshaking;
  const std::string_view bytes = handshake_.bytes();
  const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  const std::size_t sent = context_.reactor.send(*this, {&piece, 1});
  // A new socket has room for a few hundred bytes; one that has not is of no use.
  if (sent != net::Reactor::kInFlight && sent != bytes.size()) disconnect("handshake cut short");
}

void Pipe::become_ready() {
  if (failures_ > 0) spdlog::info("node {}: connected again", net::to_string(node_));
  state_ = State::ready;
  failures_ = 0;
  given_up_ = false;
  trouble_.clear();
  last_heard_ = now();
  if (!reads_) context_.reactor.stop_receive(*this);
  // Waiting for a connection was bounded by the retry deadline; the time-out of the answer begins.
  for (std::size_t i = 0; i < requests_.size(); ++i) requests_[i].times.queued = now();
  if (observer_ != nullptr) observer_->on_up();
  mark_dirty();
}

// Starts to close. What becomes of the requests is decided in on_closed(), when the kernel holds
// none of their bytes any more.
void Pipe::disconnect(std::string why) {
  if (state_ == State::closing) return;
  if (!retiring_) LOG_LIMITED(warn, "node {}: {}", net::to_string(node_), why);
  if (!retiring_) context_.on_trouble();
  trouble_ = std::move(why);
  if (observer_ != nullptr && state_ == State::ready) observer_->on_down();
  state_ = State::closing;
  context_.reactor.close(*this);
}

void Pipe::on_end(int error) {
  disconnect(error == 0 ? "it closed the connection" : std::strerror(error));
}

void Pipe::on_closed() {
  sort_out_requests();
  context_.blocks.put_chain(std::exchange(torn_, nullptr));
  scanner_.reset();
  streaming_ = false;
  back_off();
  if (retiring_) return_unsent();
}

// The first attempt after a good connection is made at once.
void Pipe::back_off() {
  state_ = State::backing_off;
  ++stats_.failures;
  given_up_ = is_unreachable();  // for good: the clock wraps
  if (failures_ == 0) down_since_ = now();
  const int doublings = std::min<int>(failures_, 6) - 1;
  retry_at_ = now();
  if (failures_ > 0) {
    const Micros longest = std::min(kFirstBackOff << doublings, kLongestBackOff);
    retry_at_ += longest / 2 + static_cast<Micros>(context_.random()) % (longest / 2);
  }
  failures_ = static_cast<std::uint8_t>(std::min(failures_ + 1, 255));
}

// The connection is gone. Requests that were not sent whole stay, and so do reads, unless the same
// session sent a write behind them: repeated now, they could see it. Everything else that was sent
// may have run: it comes back as lost and is never sent again.
void Pipe::sort_out_requests() {
  std::vector<LeftOver> all = take_all_requests();
  std::vector<LeftOver> kept, lost;
  std::unordered_set<std::uint64_t> wrote;  // sessions with a lost write
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    Entry& entry = each->entry;
    if (entry.expired || entry.times.watch == Watch::companion) continue;
    entry.times.watch = Watch::none;
    const bool cut_short = each->why == Lost::cut_short;
    const bool repeatable = entry.times.repeatable && entry.times.attempts < kReadAttemptsMax;
    const bool keep = !each->was_sent ||
                      (repeatable && !cut_short && !wrote.contains(session_of(entry.token)));
    if (!entry.times.repeatable && each->was_sent) wrote.insert(session_of(entry.token));
    if (each->was_sent) ++entry.times.attempts;
    (keep ? kept : lost).push_back(std::move(*each));
  }
  for (auto each = kept.rbegin(); each != kept.rend(); ++each) {
    append(each->entry.token, each->bytes, each->entry.times);
  }
  for (auto each = lost.rbegin(); each != lost.rend(); ++each) {
    ++stats_.lost;
    context_.sink.on_lost(each->entry.token, each->why, {each->bytes, each->entry.times}, node_,
                          trouble_);
  }
}

// Empties the queue. A request counts as sent when all of its bytes were handed to the kernel; one
// that was cut in two cannot have run.
std::vector<Pipe::LeftOver> Pipe::take_all_requests() {
  std::vector<LeftOver> all;
  std::size_t sent = queue_.retained();
  bool cut_short = streaming_;
  queue_.mark_sent(queue_.unsent());
  while (!requests_.empty()) {
    const Entry& entry = requests_.front();
    const bool was_sent = sent >= entry.bytes;
    sent -= was_sent ? entry.bytes : sent;
    all.push_back({entry, std::string(queue_.front(entry.bytes)), was_sent,
                   cut_short ? Lost::cut_short : Lost::outcome_unknown});
    cut_short = false;
    finish_front();
  }
  return all;
}

void Pipe::return_unsent() {
  if (state_ == State::ready || state_ == State::handshaking || state_ == State::closing) return;
  for (const LeftOver& each : take_all_requests()) {
    context_.sink.on_lost(each.entry.token, Lost::returned, {each.bytes, each.entry.times}, node_,
                          trouble_);
  }
}

void Pipe::tick() {
  if (observer_ != nullptr && !retiring_) observer_->tick();
  switch (state_) {
    case State::ready:
      if (reads_) expire_sent();  // or what it has sent is not looked at
      return;
    case State::backing_off:
      // Also when nothing waits: requests that fail at once wait for nothing, and would do so for
      // ever if nobody looked whether the node is back.
      if (is_due(now(), retry_at_) && !retiring_) start_connecting();
      return expire_unsent();
    case State::resolving:
    case State::connecting:
    case State::handshaking:
      expire_unsent();
      if (!is_over(now(), state_since_, context_.limits.connect_timeout)) return;
      if (state_ != State::resolving) return disconnect("it does not answer in time");
      trouble_ = "its name does not resolve in time";
      return back_off();
    case State::idle:
    case State::closing: return;
  }
}

void Pipe::excuse(Micros stall) {
  // What began during the stall begins now.
  const auto shift = [now = now(), stall](Micros& when) { when += std::min(now - when, stall); };
  for (std::size_t i = 0; i < requests_.size(); ++i) shift(requests_[i].times.queued);
  shift(state_since_);
  shift(last_heard_);
  shift(down_since_);
}

// Requests are answered in order, so the oldest times out first.
void Pipe::expire_sent() {
  const Micros limit = context_.limits.request_timeout;
  while (expired_ < requests_.size() && is_over(now(), requests_[expired_].times.queued, limit)) {
    // A client that has the first half of a reply can get nothing else in its place.
    const Lost why = streaming_ && expired_ == 0 ? Lost::cut_short : Lost::timed_out;
    Entry& entry = requests_[expired_++];
    entry.expired = true;
    ++stats_.timeouts;
    context_.sink.on_lost(entry.token, why, {{}, entry.times}, node_, trouble_);
  }
  // A node that works off its queue slowly may go on; one that says nothing at all is asked anew.
  if (expired_ > 0 && is_over(now(), last_heard_, limit)) disconnect("it has stopped answering");
}

void Pipe::expire_unsent() {
  const Micros limit = context_.limits.retry_deadline;
  while (!requests_.empty()) {
    const Entry entry = requests_.front();
    if (!is_unreachable() && !is_over(now(), entry.times.begun, limit)) return;
    queue_.mark_sent(std::min<std::size_t>(entry.bytes, queue_.unsent()));
    const std::string bytes(queue_.front(entry.bytes));
    finish_front();
    ++stats_.lost;
    context_.sink.on_lost(entry.token, Lost::not_sent, {bytes, entry.times}, node_, trouble_);
  }
}

void Pipe::stop_reading() {
  reads_ = false;
  if (state_ == State::ready) context_.reactor.stop_receive(*this);
}

void Pipe::go_on_reading() {
  reads_ = true;
  if (state_ != State::ready) return;
  last_heard_ = now();
  for (std::size_t i = 0; i < requests_.size(); ++i) requests_[i].times.queued = now();
  context_.reactor.start_receive(*this);
}

void Pipe::shut_down() {
  retiring_ = true;
  if (is_open()) {
    disconnect("shutting down");
  } else {
    state_ = State::idle;
  }
}

bool Pipe::retire() {
  retiring_ = true;
  if (state_ == State::ready && requests_.empty()) disconnect("it left the cluster");
  const bool closed = state_ == State::idle || state_ == State::backing_off;
  return observer_is_done() && closed && requests_.empty();
}

}  // namespace penstock::backend
