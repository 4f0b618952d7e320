// Bytes on their way to a socket, against a plain string as the model.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/send_queue.h"

#include <random>
#include <string>

#include "catch.h"

namespace penstock::net {
namespace {

std::string unsent_of(const SendQueue& queue) {
  std::string out;
  iovec pieces[64];
  const std::size_t count = queue.gather(pieces);
  for (std::size_t i = 0; i < count; ++i) {
    out.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  }
  return out;
}

Block* block_with(BlockPool& pool, const std::string& bytes) {
  Block* block = pool.get(bytes.size());
  std::memcpy(block->data(), bytes.data(), bytes.size());
  block->end = static_cast<std::uint32_t>(bytes.size());
  return block;
}

}  // namespace

TEST_CASE("what is appended is what is to be sent, and what was sent stays until it is retired") {
  BlockPool pool;
  SendQueue queue(pool);
  queue.append_whole("abc");
  queue.append_whole("defg");
  CHECK(unsent_of(queue) == "abcdefg");
  queue.mark_sent(3);
  CHECK(unsent_of(queue) == "defg");
  CHECK(queue.front(3) == "abc");
  queue.unsend(2);
  CHECK(unsent_of(queue) == "bcdefg");
  queue.mark_sent(6);
  queue.retire(3);
  CHECK(queue.front(4) == "defg");
  queue.retire(4);
  CHECK(queue.empty());
  CHECK(pool.bytes_used() == 0);
}

TEST_CASE("any order of operations keeps the bytes") {
  BlockPool pool;
  std::minstd_rand random(11);
  for (int round = 0; round < 200; ++round) {
    SendQueue queue(pool);
    std::string model;     // everything not retired
    std::size_t sent = 0;  // of it
    for (int step = 0; step < 200; ++step) {
      const std::size_t size = random() % (random() % 8 == 0 ? 100'000 : 300);
      const std::string bytes(size, static_cast<char>('a' + step % 26));
      const std::size_t some_unsent = random() % (queue.unsent() + 1);
      const std::size_t some_sent = random() % (sent + 1);
      switch (random() % 6) {
        case 0: queue.append(bytes); model += bytes; break;
        case 1: queue.append_whole(bytes); model += bytes; break;
        case 2: queue.adopt(block_with(pool, bytes)); model += bytes; break;
        case 3: queue.mark_sent(some_unsent); sent += some_unsent; break;
        case 4: queue.unsend(some_sent); sent -= some_sent; break;
        default:
          queue.retire(some_sent);
          model.erase(0, some_sent);
          sent -= some_sent;
      }
      REQUIRE(queue.retained() == sent);
      REQUIRE(queue.unsent() == model.size() - sent);
      const std::string unsent = unsent_of(queue);
      REQUIRE(model.compare(sent, unsent.size(), unsent) == 0);
      REQUIRE((unsent.size() == queue.unsent() || unsent.size() > 100));
    }
  }
  CHECK(pool.bytes_used() == 0);
}

TEST_CASE("an empty queue holds no memory") {
  BlockPool pool;
  SendQueue queue(pool);
  for (int i = 0; i < 100; ++i) {
    queue.append("reply\r\n");
    queue.mark_sent(7);
    queue.retire(7);
    REQUIRE(pool.bytes_used() == 0);
  }
}

TEST_CASE("blocks are recycled, grown and given back") {
  BlockPool pool(1 << 20);
  Block* small = pool.get(10);
  CHECK(small->capacity >= 10);
  std::memcpy(small->data(), "hello", 5);
  small->end = 5;
  Block* large = pool.grow(small, 200'000);
  CHECK(large->bytes() == "hello");
  Block* larger = pool.grow(large, 3'000'000);
  CHECK(larger->bytes() == "hello");
  CHECK(pool.bytes_used() >= 3'000'000);
  pool.put(larger);
  CHECK(pool.bytes_used() == 0);
  CHECK(pool.bytes_cached() > 0);
  pool.trim(0);
  CHECK(pool.bytes_cached() == 0);
}

}  // namespace penstock::net
