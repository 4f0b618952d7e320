// Byte blocks in size classes, recycled per worker.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/block.h"

#include <cstdlib>
#include <cstring>

#include "penstock/log/check.h"

namespace penstock::net {
Block* BlockPool::allocate(std::size_t total) {
  const bool pooled = total <= kLargest + sizeof(Block);
  const std::uint8_t size_class = pooled ? class_of(total) : kUnpooled;
  if (pooled) total = std::size_t{1} << (size_class + kSmallestLog2);
  CHECK(total - sizeof(Block) <= UINT32_MAX);
  auto* block = static_cast<Block*>(std::malloc(total));
  CHECK(block != nullptr);
  block->capacity = static_cast<std::uint32_t>(total - sizeof(Block));
  block->size_class = size_class;
  return block;
}

void BlockPool::release(Block* block) { std::free(block); }

void BlockPool::put_chain(Block* block) {
  while (block != nullptr) {
    Block* next = block->next;
    put(block);
    block = next;
  }
}

// Large blocks grow by realloc, which moves pages instead of bytes.
Block* BlockPool::grow(Block* block, std::size_t capacity) {
  if (capacity <= block->capacity) return block;
  if (block->size_class == kUnpooled) {
    CHECK(capacity <= UINT32_MAX);
    used_.add(capacity - block->capacity);
    block = static_cast<Block*>(std::realloc(block, sizeof(Block) + capacity));
    CHECK(block != nullptr);
    block->capacity = static_cast<std::uint32_t>(capacity);
    return block;
  }
  Block* larger = get(capacity);
  std::memcpy(larger->data(), block->data() + block->begin, block->end - block->begin);
  larger->end = block->end - block->begin;
  larger->next = block->next;
  put(block);
  return larger;
}

void BlockPool::trim(std::size_t bytes) {
  for (std::size_t i = free_.size(); i-- > 0;) {
    while (free_[i] != nullptr && cached_ > bytes) {
      Block* block = free_[i];
      free_[i] = block->next;
      cached_ -= total_of(block);
      std::free(block);
    }
  }
}

}  // namespace penstock::net
