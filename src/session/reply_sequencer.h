// Puts one client's replies into the order of its requests: a window of places, oldest first.
// A reply that arrives early is held in its place until its turn.
//
//      open() -> [ head: next to answer | ... | newest ]      early replies wait here
//
// Belongs to one session. Takes memory only while something is in flight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "penstock/backend/reply_sink.h"
#include "penstock/cluster/hash_slot.h"
#include "penstock/net/block.h"

namespace penstock::session {

class FanOut;

// One request in flight.
struct Place {
  net::Block* held = nullptr;       // an early reply, as a chain of blocks
  net::Block* held_tail = nullptr;
  FanOut* fan_out = nullptr;        // for a command that was split; owned by the session
  backend::Micros begun = 0;        // when its bytes were read
  backend::Micros backend_us = 0;   // the node's part of its time
  cluster::Slot slot = cluster::kNoSlot;
  std::uint16_t command = 0;        // index in the command table
  bool done = false;       // true exactly when its whole reply is there
  bool begun_reply = false;  // true once a piece of a large reply was passed on
  bool silent = false;     // true when CLIENT REPLY says that its reply is not to be sent
  bool several_keys = false;  // true when a node may refuse it with TRYAGAIN
  bool retrying = false;   // true while it was refused by one node and not answered by another
};

class ReplySequencer {
 public:
  explicit ReplySequencer(net::BlockPool& pool) : pool_(pool) {}
  ReplySequencer(const ReplySequencer&) = delete;
  ReplySequencer& operator=(const ReplySequencer&) = delete;
  ~ReplySequencer() { clear(); }

  bool empty() const { return head_ == next_; }
  std::uint32_t size() const { return next_ - head_; }
  std::uint32_t head() const { return head_; }
  std::uint32_t next() const { return next_; }
  // Whether a sequence number is of a request that is still in flight.
  bool contains(std::uint32_t sequence) const { return sequence - head_ < size(); }

  // A place behind all others; its number.
  std::uint32_t open(const Place& place) {
    if (size() == capacity_) [[unlikely]] grow();
    places()[next_ & (capacity_ - 1)] = place;
    return next_++;
  }
  Place& at(std::uint32_t sequence) { return places()[sequence & (capacity_ - 1)]; }

  // Keeps bytes of an early reply.
  void hold(Place& place, std::string_view bytes);
  // Takes the held bytes out of a place; the caller owns the chain.
  net::Block* take_held(Place& place);

  // Bytes of early replies that are held.
  std::size_t held_bytes() const { return held_bytes_; }

  void pop_head() { ++head_; }
  // Gives the memory back; only when empty.
  void release_if_empty() {
    if (head_ == next_ && block_ != nullptr) release();
  }
  // Drops everything.
  void clear();

 private:
  Place* places() { return reinterpret_cast<Place*>(block_->data()); }
  void grow();
  void release();

  net::BlockPool& pool_;
  net::Block* block_ = nullptr;  // holds the ring of places
  std::uint32_t capacity_ = 0;   // a power of two
  std::uint32_t head_ = 0;
  std::uint32_t next_ = 0;
  std::size_t held_bytes_ = 0;
};

}  // namespace penstock::session
