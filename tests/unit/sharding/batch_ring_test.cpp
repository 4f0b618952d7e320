// Batches between two threads: order, bounds, memory.
// SPDX-License-Identifier: Apache-2.0
#include "sharding/batch_ring.h"

#include <cstring>
#include <string>
#include <thread>

#include "catch.h"

namespace penstock::sharding {
namespace {

void write(BatchRing& ring, std::string_view bytes) {
  std::memcpy(ring.reserve(bytes.size()), bytes.data(), bytes.size());
  ring.commit(bytes.size());
}

std::string read_all(BatchRing& ring) {
  std::string out;
  for (; !ring.empty(); ring.pop()) out += ring.front();
  return out;
}

}  // namespace

TEST_CASE("what was written is there once it is published, in order") {
  BatchRing ring;
  write(ring, "a");
  write(ring, "b");
  CHECK(ring.empty());
  CHECK(ring.publish());
  write(ring, "c");
  CHECK(ring.front() == "ab");
  CHECK(ring.publish());
  CHECK_FALSE(ring.publish());  // nothing to publish
  CHECK(read_all(ring) == "abc");
}

TEST_CASE("a reader that does not come makes the last batch grow, and nothing is lost") {
  BatchRing ring;
  std::string wanted;
  int published = 0;
  for (char c = 'a'; c <= 'z'; ++c) {
    write(ring, {&c, 1});
    wanted += c;
    published += ring.publish() ? 1 : 0;
  }
  CHECK(published == 3);
  CHECK(ring.unpublished() == 23);
  std::string got = read_all(ring);
  CHECK(ring.publish());
  got += read_all(ring);
  CHECK(got == wanted);
}

TEST_CASE("a full batch takes no more, but one item may be larger than a batch") {
  BatchRing ring;
  const std::string item(BatchRing::kBatchBytes / 2, 'x');
  write(ring, item);
  CHECK(ring.has_room());
  write(ring, item);
  CHECK_FALSE(ring.has_room());
  ring.publish();
  CHECK(ring.has_room());
  write(ring, std::string(10 * BatchRing::kBatchBytes, 'y'));
  ring.publish();
  CHECK(read_all(ring).size() == 11 * BatchRing::kBatchBytes);
}

TEST_CASE("the memory of a burst is given back when the burst is read") {
  BatchRing ring;
  write(ring, std::string(8 << 20, 'x'));
  CHECK(ring.memory() >= (8 << 20));
  ring.publish();
  read_all(ring);
  CHECK(ring.memory() == 0);
  for (int i = 0; i < 100; ++i) {
    write(ring, "a few bytes");
    ring.publish();
    read_all(ring);
  }
  CHECK(ring.memory() <= 4 * 4096);
  ring.trim();
  CHECK(ring.memory() > 0);  // it was in use a moment ago
  ring.trim();
  CHECK(ring.memory() == 0);
  write(ring, "and on it goes");
  ring.publish();
  CHECK(read_all(ring) == "and on it goes");
}

TEST_CASE("two threads pass a long stream on without losing or changing a byte") {
  BatchRing ring;
  constexpr std::uint32_t kNumbers = 2'000'000;
  std::thread writer([&ring] {
    std::uint32_t next = 0;
    while (next < kNumbers) {
      for (int i = 0; i < 50 && next < kNumbers && ring.has_room(); ++i, ++next) {
        std::memcpy(ring.reserve(sizeof(next)), &next, sizeof(next));
        ring.commit(sizeof(next));
      }
      ring.publish();
    }
    while (ring.unpublished() > 0) ring.publish();
  });
  std::uint32_t wanted = 0;
  bool good = true;
  while (wanted < kNumbers) {
    for (; !ring.empty(); ring.pop()) {
      for (std::string_view batch = ring.front(); !batch.empty(); batch.remove_prefix(4)) {
        std::uint32_t got = 0;
        std::memcpy(&got, batch.data(), sizeof(got));
        good = good && got == wanted++;
      }
    }
  }
  writer.join();
  CHECK(good);
}

}  // namespace penstock::sharding
