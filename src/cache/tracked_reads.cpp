// Claiming what goes out through the tracked pipe, and keeping what comes back.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "penstock/cache/invalidation_tracker.h"
#include "penstock/resp/number.h"
#include "penstock/resp/reply_scanner.h"

namespace penstock::cache {

using backend::Watch;

namespace {

constexpr std::string_view kCachingYes = "*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n";

// The node's clock and ours need not tick together, and the look at ours may be a turn old.
constexpr Nanos kMargin = 2'000'000;

constexpr std::int64_t kAbsent = -2;  // PTTL

bool is_null(std::string_view frame) { return frame[0] == '_' || frame.starts_with("$-1"); }

}  // namespace

bool InvalidationTracker::serves() const {
  return source_.index < Sources::kMax && cache_.keeps() &&
         cache_.sources().serves(source_, now());
}

void InvalidationTracker::ask(std::string_view frame, Expected::Kind kind) {
  expected_.emplace_back() = {.kind = kind};
  data_.append_companion(frame);
}

InvalidationTracker::Expected InvalidationTracker::claim(std::string_view key,
                                                         std::uint64_t hash, Slot slot,
                                                         ReplyCache::Of of) {
  Expected expected{.kind = of == ReplyCache::Of::read ? Expected::Kind::ttl
                                                       : Expected::Kind::own_write,
                    .at = now()};
  if (!options_.filter.allows(key)) return expected;
  const auto claim = cache_.claim(hash, slot, source_, of);
  if (!claim) return expected;
  expected.claimed = true;
  expected.claim = *claim;
  expected.heard = heard_of(hash);
  return expected;
}

// Another read of the key that nobody keeps may see what was not announced here yet. Who gets its
// reply must not be served with anything older, so that goes, and what was asked for earlier on
// this pipe is not kept.
void InvalidationTracker::pass_by(std::uint64_t hash) {
  ++heard_of(hash);
  cache_.invalidate(hash, source_);
}

bool InvalidationTracker::before(std::string_view request, Watch watch) {
  if (source_.index >= Sources::kMax) return false;
  if (watch == Watch::own_write) return before_own_write(request);
  const bool keeps = watch == Watch::read && serves();
  bool any = false;
  claims_.clear();
  for (const NamedRead& read : reader_.reads(request, view_)) {
    if (keeps && !(read.of_fields && fields_expire_)) {
      claims_.push_back(claim(read.key, read.name.hash, read.slot, ReplyCache::Of::read));
      any = any || claims_.back().claimed;
    }
    if (claims_.empty() || !claims_.back().claimed) pass_by(read.name.hash);
  }
  if (!any) return false;
  if (options_.mode == Tracking::optin) ask(kCachingYes, Expected::Kind::caching);
  expected_.emplace_back() = {.kind = Expected::Kind::value};
  return true;
}

bool InvalidationTracker::before_own_write(std::string_view request) {
  if (!serves()) return false;
  const std::optional<NamedWrite> write = reader_.write(request, view_);
  if (!write) return false;
  const Expected expected =
      claim(write->key, write->name.hash, write->slot, ReplyCache::Of::own_write);
  if (expected.claimed) expected_.emplace_back() = expected;
  return expected.claimed;
}

void InvalidationTracker::after(std::string_view request, Watch watch) {
  if (watch != Watch::read) return;
  std::size_t next = 0;
  for (const NamedRead& read : reader_.reads(request, view_)) {
    expected_.emplace_back() = claims_[next++];
    ttl_request_.clear();
    fmt::format_to(std::back_inserter(ttl_request_), "*2\r\n$4\r\nPTTL\r\n${}\r\n{}\r\n",
                   read.key.size(), read.key);
    data_.append_companion(ttl_request_);
  }
}

void InvalidationTracker::on_watched(Watch, std::string_view request, std::string_view reply) {
  if (expected_.empty()) return;
  const Expected expected = expected_.front();
  expected_.pop_front();
  switch (expected.kind) {
    case Expected::Kind::caching: caching_refused_ = reply != "+OK\r\n"; return;
    case Expected::Kind::value: return take_value(request, reply);
    case Expected::Kind::ttl: return take_ttl(expected, reply);
    case Expected::Kind::own_write: return take_own_write(expected, request, reply);
    case Expected::Kind::tracking: return on_tracking(reply);
    case Expected::Kind::role: return on_role(reply);
    case Expected::Kind::ignored: return;
  }
}

// The replies to PTTL follow, one for each key.
void InvalidationTracker::take_value(std::string_view request, std::string_view reply) {
  value_good_ = !reply.empty() && reply[0] != '-' && reply[0] != '!' && !caching_refused_;
  caching_refused_ = false;
  next_key_ = next_element_ = 0;
  if (!value_good_) return;
  request_.assign(request);
  reply_.assign(reply);
}

void InvalidationTracker::take_ttl(const Expected& expected, std::string_view reply) {
  const std::size_t key = next_key_++;
  if (!value_good_) return stats_.cache_void.add();
  const NamedRead read = reader_.reads(request_, view_)[key];
  const std::string_view frame = read.in_array ? next_element() : std::string_view(reply_);
  std::int64_t milliseconds = kAbsent;
  const bool told = reply.starts_with(':') &&
                    resp::parse_integer(reply.substr(1, reply.size() - 3), milliseconds);
  // Nobody says so when an absent key's slot moves, and it comes to life elsewhere. A null of MGET
  // may also stand for a key of another type.
  if (!told || milliseconds == kAbsent || (read.in_array && is_null(frame))) {
    return stats_.cache_absent.add();
  }
  keep(expected, read.name, frame, milliseconds, stats_.cache_fills);
}

std::string_view InvalidationTracker::next_element() {
  if (next_element_ == 0) next_element_ = reply_.find("\r\n") + 2;
  const std::string_view rest = std::string_view(reply_).substr(next_element_);
  resp::ReplyScanner scanner;
  scanner.scan(rest);
  next_element_ += scanner.frame_size();
  return rest.substr(0, scanner.frame_size());
}

void InvalidationTracker::take_own_write(const Expected& expected, std::string_view request,
                                         std::string_view reply) {
  if (reply != "+OK\r\n") return stats_.cache_void.add();
  const NamedWrite write = *reader_.write(request, view_);
  keep(expected, write.name, write.frame, write.milliseconds, stats_.cache_writes_kept);
}

void InvalidationTracker::keep(const Expected& expected, const ReadName& name,
                               std::string_view frame, std::int64_t milliseconds,
                               stats::Counter& kept) {
  const Nanos lives = milliseconds == NamedWrite::kForEver ? options_.max_age
                                                         : milliseconds * 1'000'000 - kMargin;
  const Nanos expires = expected.at + std::min(lives, options_.max_age);
  const bool good = expected.claimed && heard_of(expected.claim.hash) == expected.heard &&
                    expires > now() && cache_.store(expected.claim, name, frame, expires);
  (good ? kept : stats_.cache_void).add();
}

}  // namespace penstock::cache
