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
#include <cstring>
#include <string_view>
#include <utility>

#include "penstock/backend/reply_sink.h"
#include "penstock/cluster/hash_slot.h"
#include "penstock/net/block.h"

namespace penstock::session {

class FanOut;

// One request in flight.
struct Place {
  static constexpr std::uint32_t kCacheMarkMax = (1U << 24) - 1;

  net::Block* held = nullptr;       // the last block of an early reply; its next is the first
  FanOut* fan_out = nullptr;        // for a command that was split; owned by the session
  backend::Micros begun = 0;        // when its bytes were read
  backend::Micros backend_us = 0;   // the node's part of its time
  cluster::Slot slot = cluster::kNoSlot;
  std::uint16_t command = 0;        // index in the command table
  bool done : 1 = false;         // true exactly when its whole reply is there
  bool begun_reply : 1 = false;  // true once a piece of a large reply was passed on
  bool silent : 1 = false;       // true when CLIENT REPLY says that its reply is not to be sent
  bool several_keys : 1 = false; // true when a node may refuse it with TRYAGAIN
  bool retrying : 1 = false;     // true while it was refused by one node and not answered
  bool refused : 1 = false;      // true once a node was not able to serve it just then
  bool overtaken : 1 = false;    // true when it was refused, and a later one of its slot ran
  // For the reply cache: of a read the SharedReads that it waits for, of a write what OwnWrites
  // knows of its keys; 0: nothing.
  std::uint32_t cache_mark : 24 = 0;

  // Whether there is something of its reply.
  bool is_early() const { return done || held != nullptr; }
};
static_assert(sizeof(Place) == 32);

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

  // A fresh place behind all others; its number is next() - 1 afterwards.
  [[gnu::always_inline]] Place& open() {
    if (size() == capacity_) [[unlikely]] grow();
    return places()[next_++ & (capacity_ - 1)] = Place{};
  }
  Place& at(std::uint32_t sequence) { return places()[sequence & (capacity_ - 1)]; }

  // Keeps bytes of an early reply.
  void hold(Place& place, std::string_view bytes) {
    if (place.held != nullptr) [[unlikely]] return hold_more(place, bytes);
    held_bytes_ += bytes.size();
    net::Block* const block = pool_.get(bytes.size());
    std::memcpy(block->data(), bytes.data(), bytes.size());
    block->end = static_cast<std::uint32_t>(bytes.size());
    place.held = block->next = block;
  }
  // Takes the held bytes out of a place; the caller owns the chain.
  net::Block* take_held(Place& place) {
    net::Block* const last = std::exchange(place.held, nullptr);
    net::Block* const first = std::exchange(last->next, nullptr);
    for (net::Block* block = first; block != nullptr; block = block->next) {
      held_bytes_ -= block->end;
    }
    return first;
  }

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
  void hold_more(Place& place, std::string_view bytes);
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
