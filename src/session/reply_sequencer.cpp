// Puts one client's replies into the order of its requests.
// SPDX-License-Identifier: Apache-2.0
#include "session/reply_sequencer.h"

#include <cstring>
#include <type_traits>
#include <utility>

namespace penstock::session {

static_assert(std::is_trivially_copyable_v<Place>);

namespace {

constexpr std::uint32_t kFirstCapacity = 16;

}  // namespace

void ReplySequencer::hold_more(Place& place, std::string_view bytes) {
  held_bytes_ += bytes.size();
  const std::string_view fits = bytes.substr(0, place.held->room());
  std::memcpy(place.held->data() + place.held->end, fits.data(), fits.size());
  place.held->end += static_cast<std::uint32_t>(fits.size());
  bytes.remove_prefix(fits.size());
  if (bytes.empty()) return;
  net::Block* block = pool_.get(bytes.size());
  std::memcpy(block->data(), bytes.data(), bytes.size());
  block->end = static_cast<std::uint32_t>(bytes.size());
  block->next = std::exchange(place.held->next, block);
  place.held = block;
}

void ReplySequencer::clear() {
  for (; head_ != next_; ++head_) {
    if (at(head_).held != nullptr) pool_.put_chain(take_held(at(head_)));
  }
  if (block_ != nullptr) release();
}

void ReplySequencer::grow() {
  const std::uint32_t capacity = capacity_ == 0 ? kFirstCapacity : 2 * capacity_;
  net::Block* larger = pool_.get(capacity * sizeof(Place));
  Place* const target = reinterpret_cast<Place*>(larger->data());
  for (std::uint32_t i = head_; i != next_; ++i) {
    std::memcpy(static_cast<void*>(&target[i & (capacity - 1)]), &at(i), sizeof(Place));
  }
  if (block_ != nullptr) pool_.put(block_);
  block_ = larger;
  capacity_ = capacity;
}

void ReplySequencer::release() {
  pool_.put(block_);
  block_ = nullptr;
  capacity_ = 0;
}

}  // namespace penstock::session
