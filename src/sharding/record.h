// What workers hand to each other: a header and the bytes behind it, in a batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "penstock/backend/reply_sink.h"
#include "penstock/cluster/hash_slot.h"
#include "penstock/resp/reply_writer.h"
#include "penstock/sharding/owner_plan.h"

namespace penstock::sharding {

struct Record {
  // A large request comes as its block: the frame is the pointer.
  enum class Kind : std::uint8_t { request, request_block, reply, error, piece, last_piece, lost };

  std::uint32_t frame_bytes = 0;    // of the request or the reply; of the trouble when it is lost
  std::uint32_t request_bytes = 0;  // error and lost: the request, behind that
  backend::ReplyToken token;
  backend::RequestTimes times;      // `queued` of a reply: how long the node took
  std::uint32_t plan = 0;           // version of the plan that a request goes by
  SharedNode node;
  cluster::Slot slot = cluster::kNoSlot;
  Kind kind = Kind::request;
  union {
    resp::Protocol protocol = resp::Protocol::resp2;  // request
    backend::Lost why;                                // lost
  };

  // Bytes in the batch, so that the next record is aligned.
  std::size_t size() const {
    return (sizeof(Record) + frame_bytes + request_bytes + alignof(Record) - 1) &
           ~(alignof(Record) - 1);
  }
};
static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) <= 48);

// A protocol's bit in NodeSigns::ready.
inline std::uint8_t bit_of(resp::Protocol protocol) {
  return protocol == resp::Protocol::resp2 ? 1 : 2;
}

}  // namespace penstock::sharding
