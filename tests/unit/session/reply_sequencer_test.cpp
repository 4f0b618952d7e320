// The window of places.
// SPDX-License-Identifier: Apache-2.0
#include "session/reply_sequencer.h"

#include <string>

#include "catch.h"

namespace penstock::session {
namespace {

std::string take(ReplySequencer& sequencer, net::BlockPool& pool, Place& place) {
  std::string out;
  net::Block* block = sequencer.take_held(place);
  for (net::Block* each = block; each != nullptr; each = each->next) out += each->bytes();
  pool.put_chain(block);
  return out;
}

}  // namespace

TEST_CASE("a reply that arrives early waits for its turn") {
  net::BlockPool pool;
  ReplySequencer sequencer(pool);
  sequencer.open();
  sequencer.open();
  const std::uint32_t first = sequencer.head(), second = first + 1;
  sequencer.hold(sequencer.at(second), "early ");
  sequencer.hold(sequencer.at(second), std::string(5000, 'x'));
  CHECK(sequencer.held_bytes() == 5006);
  CHECK(sequencer.head() == first);
  sequencer.pop_head();
  CHECK(take(sequencer, pool, sequencer.at(second)) == "early " + std::string(5000, 'x'));
  CHECK(sequencer.held_bytes() == 0);
}

TEST_CASE("the window grows with what is in flight and is given back when nothing is") {
  net::BlockPool pool;
  ReplySequencer sequencer(pool);
  for (int round = 0; round < 3; ++round) {
    for (cluster::Slot i = 0; i < 1000; ++i) {
      sequencer.open().slot = i;
      if (i % 3 == 0) sequencer.pop_head();
    }
    cluster::Slot expected = 334;
    while (!sequencer.empty()) {
      REQUIRE(sequencer.at(sequencer.head()).slot == expected++);
      sequencer.pop_head();
    }
    sequencer.release_if_empty();
    CHECK(pool.bytes_used() == 0);
  }
}

TEST_CASE("a sequence number is known only while it is in flight") {
  net::BlockPool pool;
  ReplySequencer sequencer(pool);
  const std::uint32_t first = sequencer.next();
  sequencer.open();
  CHECK(sequencer.contains(first));
  CHECK_FALSE(sequencer.contains(first + 1));
  sequencer.pop_head();
  CHECK_FALSE(sequencer.contains(first));
}

TEST_CASE("what is held is given back when the session ends") {
  net::BlockPool pool;
  {
    ReplySequencer sequencer(pool);
    for (int i = 0; i < 40; ++i) sequencer.hold(sequencer.open(), "held");
  }
  CHECK(pool.bytes_used() == 0);
}

}  // namespace penstock::session
