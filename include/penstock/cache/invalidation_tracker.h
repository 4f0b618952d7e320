// Keeps what one pipe reads coherent: has the node track the keys that are read through the pipe,
// hears on a connection of its own (RESP3; the pipe redirects to it) which of them changed, and
// proves again and again that both connections live. Keeps replies only while that is so.
//
//      data pipe   CLIENT TRACKING ON REDIRECT <feed>, then reads:  [CACHING YES] GET k, PTTL k
//      feed        <- invalidate [k ...]                            PING every now and then
//
// Belongs to the pipe, on its worker's thread. Rules: redis.io/docs/reference/client-side-caching.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/pipe.h"
#include "penstock/backend/pipe_observer.h"
#include "penstock/cache/key_filter.h"
#include "penstock/cache/reply_cache.h"
#include "penstock/cache/request_reader.h"
#include "penstock/stats/worker_stats.h"

namespace penstock::cache {

enum class Tracking : std::uint8_t {
  optin,      // the node remembers which keys were read, one by one
  broadcast,  // the node names every key that somebody else changes
};

struct TrackingOptions {
  Tracking mode = Tracking::broadcast;
  KeyFilter filter;
  Nanos max_age = 10'000'000'000;
  Nanos max_staleness = 1'000'000'000;  // how old the last proof may be while replies are served
};

class InvalidationTracker final : public backend::PipeObserver {
 public:
  InvalidationTracker(backend::Pipe& data, backend::PipeContext& context, ReplyCache& cache,
                      RequestReader& reader, const TrackingOptions& options, ViewId view,
                      stats::WorkerStats& stats);
  ~InvalidationTracker() override;

  void on_up() override;
  void on_down() override;
  void on_push(std::string_view frame) override;
  bool before(std::string_view request, backend::Watch watch) override;
  void after(std::string_view request, backend::Watch watch) override;
  void on_watched(backend::Watch watch, std::string_view request,
                  std::string_view reply) override;
  void tick() override;
  bool retire() override;

 private:
  class Feed;

  // A reply that is due on the data pipe.
  struct Expected {
    enum class Kind : std::uint8_t { caching, value, ttl, own_write, tracking, role, ignored };
    Kind kind = Kind::ignored;
    bool claimed = false;      // ttl, own_write: there was a claim, and nothing came in between
    std::uint32_t heard = 0;   // of the key, as the claim was made
    Nanos at = 0;              // when it was asked for
    Claim claim{};
  };

  void stop_feed();
  void on_feed_down();
  void take_invalidation(std::string_view frame);
  void forget_all();

  void track();
  void on_tracking(std::string_view reply);
  void probe();
  void on_role(std::string_view reply);
  void prove_if_answered();
  void lose_source();
  bool serves() const;

  void ask(std::string_view frame, Expected::Kind kind);
  Expected claim(std::string_view key, std::uint64_t hash, Slot slot, ReplyCache::Of of);
  void pass_by(std::uint64_t hash);
  bool before_own_write(std::string_view request);
  void take_value(std::string_view request, std::string_view reply);
  void take_ttl(const Expected& expected, std::string_view reply);
  std::string_view next_element();
  void take_own_write(const Expected& expected, std::string_view request, std::string_view reply);
  void keep(const Expected& expected, const ReadName& name, std::string_view frame,
            std::int64_t milliseconds, stats::Counter& kept);
  std::uint32_t& heard_of(std::uint64_t hash) { return heard_[hash % heard_.size()]; }
  Nanos now() const { return context_.reactor.now(); }

  backend::Pipe& data_;
  backend::PipeContext& context_;
  ReplyCache& cache_;
  RequestReader& reader_;
  const TrackingOptions& options_;
  const ViewId view_;
  stats::WorkerStats& stats_;

  std::unique_ptr<Feed> feed_;      // null while the cache is off
  std::string feed_id_;             // the node's number of the feed; empty: not known
  bool tracking_asked_ = false;     // on this connection, for this feed
  bool tracking_ = false;           // and the node agreed
  bool fields_expire_ = true;       // the node knows HPEXPIRE: hashes are not kept
  Nanos try_again_at_ = 0;          // after the node refused
  SourceId source_;                 // index 0xffff: nothing is kept now
  Nanos probed_at_ = 0;
  bool feed_answered_ = true, data_answered_ = true;  // the last probe

  backend::Ring<Expected> expected_;
  std::vector<Expected> claims_;    // between before() and after()
  // How often a key was named by the node, counted by hash: two keys in one cost a fill at most.
  std::vector<std::uint32_t> heard_;
  // The read whose keys' times to live are awaited: what it was, what came, and how far we are.
  std::string request_, reply_, ttl_request_;
  std::size_t next_key_ = 0, next_element_ = 0;
  bool value_good_ = false, caching_refused_ = false;
};

}  // namespace penstock::cache
