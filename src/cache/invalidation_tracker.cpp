// Connecting, tracking and proving. Reading and keeping is in tracked_reads.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cache/invalidation_tracker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cache/push.h"
#include "penstock/log/check.h"
#include "penstock/log/log.h"

namespace penstock::cache {

using backend::Watch;

namespace {

// A node that refuses to track is asked again after so long.
constexpr Nanos kRefusedPause = 30'000'000'000;

// Proofs within the time that one is good for: a lost one does no harm.
constexpr int kProofs = 4;

constexpr std::size_t kHeard = 4096;

constexpr std::string_view kPing = "*1\r\n$4\r\nPING\r\n";
constexpr std::string_view kRole = "*1\r\n$4\r\nROLE\r\n";
constexpr std::string_view kClientId = "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n";
constexpr std::string_view kFieldsExpire =
    "*3\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n$8\r\nHPEXPIRE\r\n";
constexpr std::string_view kTrackingOff =
    "*3\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$3\r\nOFF\r\n";

std::string command_of(const std::vector<std::string_view>& words) {
  std::string out = fmt::format("*{}\r\n", words.size());
  for (const std::string_view word : words) {
    fmt::format_to(std::back_inserter(out), "${}\r\n{}\r\n", word.size(), word);
  }
  return out;
}

}  // namespace

// The connection on which the node says what changed.
class InvalidationTracker::Feed final : public backend::PipeObserver {
 public:
  Feed(InvalidationTracker& owner, const net::HostPort& node)
      : owner_(owner), pipe_(owner.context_, node, resp::Protocol::resp3) {
    // Not owned by the pipe: the other way round.
    pipe_.set_observer(std::shared_ptr<PipeObserver>(std::shared_ptr<void>(), this));
    ask_who_it_is();
  }
  ~Feed() override { std::erase(owner_.context_.dirty, &pipe_); }

  void ping() { ask(kPing, Reply::pong); }
  void look_after() { pipe_.tick(); }

  void on_up() override {
    if (replies_.empty()) ask_who_it_is();
  }
  void on_down() override {
    replies_.clear();
    owner_.on_feed_down();
  }
  void on_push(std::string_view frame) override { owner_.take_invalidation(frame); }
  bool before(std::string_view, Watch) override { return false; }
  void after(std::string_view, Watch) override {}
  void on_watched(Watch, std::string_view, std::string_view reply) override;
  void tick() override {}
  bool retire() override { return true; }

  bool close() {
    if (!pipe_.is_shut_down()) pipe_.shut_down();
    return pipe_.is_shut_down();
  }

 private:
  enum class Reply : std::uint8_t { id, fields, pong };

  void ask_who_it_is() {
    ask(kClientId, Reply::id);
    ask(kFieldsExpire, Reply::fields);
  }
  void ask(std::string_view frame, Reply reply) {
    replies_.emplace_back() = reply;
    pipe_.append_companion(frame);
  }

  InvalidationTracker& owner_;
  backend::Ring<Reply> replies_;
  backend::Pipe pipe_;
};

void InvalidationTracker::Feed::on_watched(Watch, std::string_view, std::string_view reply) {
  const Reply kind = replies_.front();
  replies_.pop_front();
  switch (kind) {
    case Reply::id:
      if (reply.starts_with(':')) owner_.feed_id_ = reply.substr(1, reply.find('\r') - 1);
      return;
    case Reply::fields:
      // A list with one null: the node does not know the command.
      owner_.fields_expire_ = reply != "*1\r\n_\r\n";
      return;
    case Reply::pong:
      owner_.feed_answered_ = reply == "+PONG\r\n";
      return owner_.prove_if_answered();
  }
}

InvalidationTracker::InvalidationTracker(backend::Pipe& data, backend::PipeContext& context,
                                         ReplyCache& cache, RequestReader& reader,
                                         const TrackingOptions& options, ViewId view,
                                         stats::WorkerStats& stats)
    : data_(data), context_(context), cache_(cache), reader_(reader), options_(options),
      view_(view), stats_(stats) {}

InvalidationTracker::~InvalidationTracker() {
  lose_source();
  if (feed_ != nullptr) stats_.cache_trackers.subtract();
}

void InvalidationTracker::tick() {
  if (!cache_.is_on()) {
    if (feed_ != nullptr) stop_feed();
    return;
  }
  if (feed_ == nullptr) {
    heard_.resize(kHeard);
    feed_ = std::make_unique<Feed>(*this, data_.node());
    stats_.cache_trackers.add();
  }
  feed_->look_after();
  if (feed_id_.empty() || !data_.is_ready()) return;
  if (!tracking_asked_ && now() >= try_again_at_) track();
  if (tracking_ && now() - probed_at_ >= options_.max_staleness / kProofs) probe();
}

// The cache was turned off.
void InvalidationTracker::stop_feed() {
  lose_source();
  if (tracking_asked_ && data_.is_ready()) ask(kTrackingOff, Expected::Kind::ignored);
  tracking_asked_ = tracking_ = false;
  feed_id_.clear();
  retire();
}

bool InvalidationTracker::retire() {
  if (feed_ == nullptr) return true;
  lose_source();
  if (!feed_->close()) return false;
  feed_.reset();
  stats_.cache_trackers.subtract();
  return true;
}

void InvalidationTracker::on_up() {
  if (cache_.is_on() && feed_ != nullptr && !feed_id_.empty()) track();
}

// What the node tracked for this connection it no longer tracks.
void InvalidationTracker::on_down() {
  lose_source();
  tracking_asked_ = tracking_ = false;
  expected_.clear();
  next_key_ = 0;
}

void InvalidationTracker::on_feed_down() {
  lose_source();
  feed_id_.clear();
  tracking_asked_ = tracking_ = false;
}

void InvalidationTracker::track() {
  std::vector<std::string_view> words{"CLIENT", "TRACKING", "ON", "REDIRECT", feed_id_};
  if (options_.mode == Tracking::optin) {
    words.push_back("OPTIN");
  } else {
    words.insert(words.end(), {"BCAST", "NOLOOP"});
    for (const std::string& prefix : options_.filter.prefixes) {
      words.push_back("PREFIX");
      words.push_back(prefix);
    }
  }
  // It may still redirect to a feed that is gone.
  ask(kTrackingOff, Expected::Kind::ignored);
  ask(command_of(words), Expected::Kind::tracking);
  tracking_asked_ = true;
}

void InvalidationTracker::on_tracking(std::string_view reply) {
  if (reply == "+OK\r\n") {
    tracking_ = true;
    probed_at_ = 0;
    return;
  }
  LOG_LIMITED(warn, "node {}: nothing is kept of it, it does not track: {}",
              net::to_string(data_.node()), reply.substr(0, reply.find('\r')));
  tracking_asked_ = false;
  try_again_at_ = now() + kRefusedPause;
}

// Both connections have to answer, and the node has to be a master still: one that was demoted
// goes on tracking, with the delay of its replication.
void InvalidationTracker::probe() {
  if (!feed_answered_ || !data_answered_) return;
  feed_answered_ = data_answered_ = false;
  probed_at_ = now();
  feed_->ping();
  ask(kRole, Expected::Kind::role);
}

void InvalidationTracker::on_role(std::string_view reply) {
  data_answered_ = !reply.empty();
  const bool demoted = reply.starts_with('*') && reply.find("\r\nmaster\r\n") == reply.npos;
  if (demoted) {
    if (source_.index < Sources::kMax) context_.on_trouble();
    return lose_source();
  }
  if (source_.index >= Sources::kMax && tracking_) {
    source_ = cache_.sources().open();
    if (source_.index < Sources::kMax) stats_.cache_trackers_up.add();
  }
  prove_if_answered();
}

void InvalidationTracker::prove_if_answered() {
  if (!feed_answered_ || !data_answered_ || source_.index >= Sources::kMax) return;
  cache_.sources().prove(source_, probed_at_ + options_.max_staleness);
}

void InvalidationTracker::lose_source() {
  feed_answered_ = data_answered_ = true;  // a new connection is probed at once
  if (source_.index >= Sources::kMax) return;
  cache_.sources().close(std::exchange(source_, SourceId{}));
  stats_.cache_trackers_up.subtract();
}

// ">2 invalidate [key ...]", or null instead of the keys: all of them.
void InvalidationTracker::take_invalidation(std::string_view frame) {
  std::string_view rest = invalidated_keys(frame);
  if (rest.empty()) return;
  if (rest[0] != '*') return forget_all();
  stats_.cache_pushes.add();
  next_line(rest);
  while (!rest.empty()) {
    const std::uint64_t hash = cache_.hash(next_bulk(rest));
    ++heard_of(hash);
    stats_.cache_keys_announced.add();
    stats_.cache_dropped_announced.add(cache_.invalidate(hash, source_));
  }
}

void InvalidationTracker::forget_all() {
  stats_.cache_flushes.add();
  for (std::uint32_t& each : heard_) ++each;
  if (source_.index < Sources::kMax) source_ = cache_.sources().renew(source_);
}

// The node says that the feed is gone, before the feed's end has come.
void InvalidationTracker::on_push(std::string_view frame) {
  if (frame.find("tracking-redir-broken") == frame.npos) return;
  lose_source();
  tracking_asked_ = tracking_ = false;
  feed_id_.clear();
}

}  // namespace penstock::cache
