// A queue of bytes on their way to a socket, as a chain of blocks.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/send_queue.h"

#include <algorithm>

#include "penstock/log/check.h"

namespace penstock::net {
namespace {

// Blocks grow with the queue: a single small reply takes 4 KiB, a busy pipe 64 KiB at a time.
constexpr std::size_t kFirstBlock = 4096 - sizeof(Block);
constexpr std::size_t kGrowth = 4;

}  // namespace

void SendQueue::append_split(std::string_view bytes) {
  while (!bytes.empty()) {
    if (tail_ == nullptr || tail_->room() == 0) add_block(std::min(bytes.size(), kFirstBlock));
    const std::size_t n = std::min<std::size_t>(bytes.size(), tail_->room());
    std::memcpy(tail_->data() + tail_->end, bytes.data(), n);
    commit(n);
    bytes.remove_prefix(n);
  }
}

void SendQueue::add_block(std::size_t at_least) {
  std::size_t capacity = kFirstBlock;
  if (tail_ != nullptr) {
    const std::size_t grown = (tail_->capacity + sizeof(Block)) * kGrowth - sizeof(Block);
    capacity = std::min(grown, BlockPool::kLargest);
  }
  adopt(pool_.get(std::max(capacity, at_least)));
}

void SendQueue::adopt(Block* block) {
  Block* const first = block;
  if (tail_ == nullptr) {
    head_ = first;
  } else {
    tail_->next = first;
  }
  if (unsent_ == 0) {
    unsent_block_ = first;
    unsent_offset_ = first->begin;
  }
  for (; block != nullptr; block = block->next) {
    unsent_ += block->end - block->begin;
    tail_ = block;
  }
}

std::size_t SendQueue::gather(std::span<iovec> iov) const {
  std::size_t filled = 0;
  std::uint32_t offset = unsent_offset_;
  for (Block* block = unsent_block_; block != nullptr && filled < iov.size();) {
    if (block->end > offset) {
      iov[filled++] = {block->data() + offset, block->end - offset};
    }
    block = block->next;
    if (block != nullptr) offset = block->begin;
  }
  return unsent_ == 0 ? 0 : filled;
}

void SendQueue::mark_sent(std::size_t count) {
  CHECK(count <= unsent_);
  unsent_ -= count;
  retained_ += count;
  while (count > 0) {
    const std::size_t here = std::min<std::size_t>(count, unsent_block_->end - unsent_offset_);
    unsent_offset_ += static_cast<std::uint32_t>(here);
    count -= here;
    if (unsent_offset_ == unsent_block_->end && unsent_block_->next != nullptr) {
      unsent_block_ = unsent_block_->next;
      unsent_offset_ = unsent_block_->begin;
    }
  }
}

// The front block may be empty while the next one has the bytes.
std::string_view SendQueue::front_beyond(std::size_t size) const {
  Block* block = head_;
  while (block->begin == block->end) block = block->next;
  CHECK(block->end - block->begin >= size);
  return {block->data() + block->begin, size};
}

void SendQueue::unsend(std::size_t count) {
  if (count == 0) return;
  CHECK(count <= retained_);
  retained_ -= count;
  unsent_ += count;
  std::size_t before = retained_;
  unsent_block_ = head_;
  while (before >= unsent_block_->end - unsent_block_->begin && unsent_block_->next != nullptr) {
    before -= unsent_block_->end - unsent_block_->begin;
    unsent_block_ = unsent_block_->next;
  }
  unsent_offset_ = unsent_block_->begin + static_cast<std::uint32_t>(before);
}

void SendQueue::retire_blocks(std::size_t count) {
  CHECK(count <= retained_);
  retained_ -= count;
  while (count > 0) {
    const std::size_t here = std::min<std::size_t>(count, head_->end - head_->begin);
    head_->begin += static_cast<std::uint32_t>(here);
    count -= here;
    if (head_->begin == head_->end && (head_->next != nullptr || empty())) release_head();
  }
}

void SendQueue::release_head() {
  Block* const done = head_;
  head_ = done->next;
  if (head_ == nullptr) tail_ = nullptr;
  if (unsent_block_ == done) {
    unsent_block_ = head_;
    unsent_offset_ = head_ == nullptr ? 0 : head_->begin;
  }
  pool_.put(done);
}

void SendQueue::clear() {
  pool_.put_chain(head_);
  head_ = tail_ = unsent_block_ = nullptr;
  retained_ = unsent_ = 0;
}

}  // namespace penstock::net
