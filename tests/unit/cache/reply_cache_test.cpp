// The table of kept replies: what is found, what is kept, what must not be served.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cache/reply_cache.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"

namespace penstock::cache {
namespace {

constexpr Nanos kNow = 1'000'000'000, kLater = 2 * kNow, kEver = 100 * kNow;

struct Fixture {
  Fixture() {
    cache.switch_on();
    for (std::size_t worker = 0; worker < 2; ++worker) {
      cache.settle(cache.period());
      cache.grace().begin(worker);
    }
    source = cache.sources().open();
    cache.sources().prove(source, kEver);
  }
  static std::string arguments(const std::string& key) {
    return "$" + std::to_string(key.size()) + "\r\n" + key + "\r\n";
  }
  const Entry* find(const std::string& key, Nanos now = kNow, ViewId view = 0) {
    const std::string text = arguments(key);
    return cache.find({cache.hash(key), 1, view, text}, now);
  }
  std::optional<Claim> claim(const std::string& key,
                             ReplyCache::Of of = ReplyCache::Of::read) {
    return cache.claim(cache.hash(key), kSlot, source, of);
  }
  bool store(const Claim& claim, const std::string& key, const std::string& frame,
             Nanos expires = kLater, std::uint16_t command = 1) {
    const std::string text = arguments(key);
    return cache.store(claim, {cache.hash(key), command, 0, text}, frame, expires);
  }
  bool keep(const std::string& key, const std::string& frame, Nanos expires = kLater) {
    return store(*claim(key), key, frame, expires);
  }
  void pass() {
    cache.grace().pass(0);
    cache.grace().pass(1);
  }

  static constexpr Slot kSlot = 7;
  ReplyCache cache{4 << 20, 2, 1};
  SourceId source;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a kept reply is found by its command, its arguments and its view") {
  REQUIRE(keep("k", "$1\r\nv\r\n"));
  REQUIRE(find("k") != nullptr);
  CHECK(find("k")->frame() == "$1\r\nv\r\n");
  CHECK(find("other") == nullptr);
  CHECK(find("k", kNow, 1) == nullptr);
  CHECK(cache.find({cache.hash("k"), 2, 0, arguments("k")}, kNow) == nullptr);
}

TEST_CASE_METHOD(Fixture, "nothing is served after its time, of a lost or unproven source") {
  REQUIRE(keep("k", "v"));
  CHECK(find("k", kLater) == nullptr);
  cache.sources().prove(source, kNow);
  CHECK(find("k") == nullptr);
  cache.sources().prove(source, kEver);
  CHECK(find("k") != nullptr);
  SECTION("closed") {
    cache.sources().close(source);
    CHECK(find("k") == nullptr);
    const SourceId next = cache.sources().open();
    CHECK(next.index == source.index);
    cache.sources().prove(next, kEver);
    CHECK(find("k") == nullptr);
  }
  SECTION("the node was flushed") {
    const auto before = claim("other");
    source = cache.sources().renew(source);
    CHECK(find("k") == nullptr);
    CHECK_FALSE(store(*before, "other", "v"));
  }
}

TEST_CASE_METHOD(Fixture, "a slot that is forgotten takes its replies and claims along") {
  REQUIRE(keep("k", "v"));
  const auto before = claim("other");
  cache.slots().forget(kSlot);
  CHECK(find("k") == nullptr);
  CHECK_FALSE(store(*before, "other", "v"));
  REQUIRE(keep("k", "w"));
  cache.slots().forget(kNoSlot);  // all of them
  CHECK(find("k") == nullptr);
}

TEST_CASE_METHOD(Fixture, "while a script runs in a slot nothing of it is kept") {
  cache.slots().begin(kSlot);
  CHECK_FALSE(claim("k"));
  cache.slots().end(kSlot);
  CHECK(claim("k"));
}

TEST_CASE_METHOD(Fixture, "an own write voids what is there, what is asked for, and waits") {
  REQUIRE(keep("k", "old"));
  const auto before = claim("k");
  CHECK(cache.begin_write(cache.hash("k")) == 1);
  CHECK(find("k") == nullptr);
  CHECK_FALSE(claim("k"));
  CHECK_FALSE(store(*before, "k", "old"));
  SECTION("its own value may be kept") {
    const auto own = claim("k", ReplyCache::Of::own_write);
    REQUIRE(own);
    cache.end_write(cache.cell_of(cache.hash("k")));
    CHECK(store(*own, "k", "new"));
    CHECK(find("k")->frame() == "new");
  }
  SECTION("but not with another write beside it") {
    cache.begin_write(cache.hash("k"));
    CHECK_FALSE(claim("k", ReplyCache::Of::own_write));
  }
  SECTION("nor with one that began later") {
    const auto own = claim("k", ReplyCache::Of::own_write);
    cache.begin_write(cache.hash("k"));
    CHECK_FALSE(store(*own, "k", "new"));
  }
}

TEST_CASE_METHOD(Fixture, "an announcement concerns the source that it was made for") {
  REQUIRE(keep("k", "v"));
  const SourceId other = cache.sources().open();
  CHECK(cache.invalidate(cache.hash("k"), other) == 0);
  CHECK(find("k") != nullptr);
  CHECK(cache.invalidate(cache.hash("k"), source) == 1);
  CHECK(find("k") == nullptr);
}

TEST_CASE_METHOD(Fixture, "a reply is not overwritten while a worker may still copy it") {
  REQUIRE(keep("k", "first"));
  const Entry* const held = find("k");
  cache.begin_write(cache.hash("k"));
  cache.end_write(cache.cell_of(cache.hash("k")));
  REQUIRE(keep("k", "again"));
  CHECK(held->frame() == "first");
  CHECK(find("k") != held);
  SECTION("and is, once all have gone on") {
    const Entry* const now = find("k");
    cache.begin_write(cache.hash("k"));
    cache.end_write(cache.cell_of(cache.hash("k")));
    pass();
    REQUIRE(keep("k", "third"));
    CHECK(find("k") == now);
    CHECK(now->frame() == "third");
  }
}

TEST_CASE_METHOD(Fixture, "it stays within its bytes, and one reply within its share") {
  for (int i = 0; i < 20'000; ++i) {
    keep("key" + std::to_string(i), std::string(static_cast<std::size_t>(i % 2000), 'x'));
    pass();
  }
  CHECK(cache.totals().bytes <= cache.limit());
  CHECK(cache.totals().evictions > 10'000);
  CHECK_FALSE(keep("large", std::string(1 << 20, 'x')));
  cache.resize(2 << 20);
  CHECK(cache.totals().bytes <= cache.limit());
  cache.clear();
  CHECK(cache.totals().entries == 0);
  CHECK(find("key19999") == nullptr);
}

TEST_CASE_METHOD(Fixture, "many replies of one key are bounded, and all die with it") {
  int kept = 0;
  for (std::uint16_t command = 0; command < 100; ++command) {
    kept += store(*claim("k"), "k", "v", kLater, command) ? 1 : 0;
  }
  CHECK(kept == 32);
  CHECK(cache.begin_write(cache.hash("k")) == 32);
  cache.end_write(cache.cell_of(cache.hash("k")));
  CHECK(keep("k", "v"));
}

TEST_CASE_METHOD(Fixture, "what cannot be served any more is swept up") {
  for (int i = 0; i < 1000; ++i) keep("key" + std::to_string(i), "v");
  CHECK(cache.totals().entries == 1000);
  for (int i = 0; i < 1000; ++i) cache.sweep(kLater);
  CHECK(cache.totals().entries == 0);
  CHECK(cache.totals().expired == 1000);
}

TEST_CASE_METHOD(Fixture, "off and on again it keeps nothing before every worker has settled") {
  REQUIRE(keep("k", "v"));
  CHECK(cache.keeps());
  cache.switch_off();
  CHECK_FALSE(cache.is_on());
  cache.switch_on();
  CHECK(find("k") == nullptr);
  CHECK_FALSE(cache.keeps());
  cache.settle(cache.period() - 2);  // of the time before
  cache.settle(cache.period());
  CHECK_FALSE(cache.keeps());
  cache.settle(cache.period());
  CHECK(cache.keeps());
}

// A value is 64 times one letter: one that is torn, or freed, shows.
TEST_CASE_METHOD(Fixture, "readers never see half a value while others write and evict") {
  std::atomic<bool> running{true};
  std::atomic<int> torn{0};
  std::atomic<std::uint64_t> found{0};
  std::thread reader([&] {
    while (running) {
      for (int i = 0; i < 64; ++i) {
        const Entry* entry = find("key" + std::to_string(i));
        if (entry == nullptr) continue;
        ++found;
        const std::string_view frame = entry->frame();
        if (frame != std::string(frame.size(), frame[0])) ++torn;
      }
      cache.grace().pass(1);
    }
  });
  for (int round = 0; round < 3000 || found < 1000; ++round) {
    const std::string key = "key" + std::to_string(round % 64);
    cache.begin_write(cache.hash(key));
    const auto own = claim(key, ReplyCache::Of::own_write);
    cache.grace().pass(0);
    store(*own, key, std::string(static_cast<std::size_t>(40 + round % 3 * 12),
                                 static_cast<char>('a' + round % 26)));
    cache.end_write(cache.cell_of(cache.hash(key)));
    if (round % 500 == 0) cache.clear();
    std::this_thread::yield();
  }
  running = false;
  reader.join();
  CHECK(torn == 0);
}

}  // namespace penstock::cache
