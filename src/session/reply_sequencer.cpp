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

void ReplySequencer::hold(Place& place, std::string_view bytes) {
  held_bytes_ += bytes.size();
  if (place.held_tail != nullptr) {
    const std::string_view fits = bytes.substr(0, place.held_tail->room());
    std::memcpy(place.held_tail->data() + place.held_tail->end, fits.data(), fits.size());
    place.held_tail->end += static_cast<std::uint32_t>(fits.size());
    bytes.remove_prefix(fits.size());
    if (bytes.empty()) return;
  }
  net::Block* block = pool_.get(bytes.size());
  std::memcpy(block->data(), bytes.data(), bytes.size());
  block->end = static_cast<std::uint32_t>(bytes.size());
  (place.held_tail == nullptr ? place.held : place.held_tail->next) = block;
  place.held_tail = block;
}

net::Block* ReplySequencer::take_held(Place& place) {
  place.held_tail = nullptr;
  for (net::Block* block = place.held; block != nullptr; block = block->next) {
    held_bytes_ -= block->bytes().size();
  }
  return std::exchange(place.held, nullptr);
}

void ReplySequencer::clear() {
  for (; head_ != next_; ++head_) pool_.put_chain(at(head_).held);
  held_bytes_ = 0;
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
