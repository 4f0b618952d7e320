// When the reply cache works and when it rests, and which replies are kept.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cache/worth.h"

#include "catch.h"
#include "penstock/cache/admission.h"

namespace penstock::cache {
namespace {

// Seconds of work among `seconds` of a load that stays as it is.
double working(Worth& worth, double seconds, const Worth::Sample& per_second) {
  double worked = 0;
  for (int tick = 0; tick < seconds * 10; ++tick) {
    Worth::Sample sample{.seconds = 0.1};
    if (worth.state() != Worth::State::resting) {
      sample.hits = per_second.hits / 10;
      sample.misses = per_second.misses / 10;
      sample.fills = per_second.fills / 10;
      sample.writes = per_second.writes / 10;
      sample.writes_kept = per_second.writes_kept / 10;
    }
    worked += worth.tick(sample) ? 0.1 : 0;
  }
  return worked;
}

}  // namespace

TEST_CASE("a cache that is hit works for ever") {
  Worth worth(Worth::kBroadcast);
  CHECK(working(worth, 3600, {.hits = 9000, .misses = 1000, .fills = 1000}) > 3599);
}

TEST_CASE("a load without locality has the cache at rest nearly all of an hour") {
  Worth worth(Worth::kBroadcast);
  CHECK(working(worth, 3600, {.hits = 10, .misses = 50'000, .fills = 500}) < 120);
}

TEST_CASE("writes whose announcements cost more than the hits save have it at rest") {
  Worth worth(Worth::kBroadcast);
  CHECK(working(worth, 3600, {.hits = 10'000, .misses = 1000, .writes = 50'000}) < 120);
}

TEST_CASE("a load that becomes worth it is found within the longest rest and a trial") {
  Worth worth(Worth::kOptin);
  working(worth, 3600, {.hits = 0, .misses = 50'000, .fills = 500});
  CHECK(working(worth, 600, {.hits = 9000, .misses = 1000, .fills = 500}) > 60);
  CHECK(worth.state() == Worth::State::working);
}

TEST_CASE("a proxy with nothing to do does not rest") {
  Worth worth(Worth::kOptin);
  CHECK(working(worth, 600, {.hits = 0, .misses = 20, .fills = 20}) > 599);
}

TEST_CASE("replies that are not hit are kept one in a hundred, hit ones always") {
  const auto kept = [](Admission& admission, double hits_per_kept) {
    int count = 0;
    double hits = 0;
    for (int read = 0; read < 200'000; ++read) {
      const bool hit = hits >= 1;
      if (hit) hits -= 1;
      admission.count(hit);
      if (hit || !admission.admits()) continue;
      hits += hits_per_kept;
      if (read > 100'000) ++count;
    }
    return count;
  };
  Admission useless(Admission::kOptin), useful(Admission::kOptin), after(Admission::kOptin);
  CHECK(kept(useless, 0) < 1200);
  CHECK(kept(useful, 4) > 15'000);  // every miss: a fifth of all reads
  kept(after, 0);
  CHECK(kept(after, 4) > 15'000);  // a new hot set
}

}  // namespace penstock::cache
