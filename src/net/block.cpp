// Byte blocks in size classes, recycled per worker.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/block.h"

#include <bit>
#include <cstdlib>
#include <cstring>

#include "penstock/log/check.h"

namespace penstock::net {
namespace {

constexpr int kSmallestLog2 = 7;

std::size_t total_of(const Block* block) { return sizeof(Block) + block->capacity; }

}  // namespace

std::uint8_t BlockPool::class_of(std::size_t total) {
  const int log2 = static_cast<int>(std::bit_width(total - 1));
  return static_cast<std::uint8_t>(log2 <= kSmallestLog2 ? 0 : log2 - kSmallestLog2);
}

Block* BlockPool::allocate(std::size_t total, std::uint8_t size_class) {
  CHECK(total - sizeof(Block) <= UINT32_MAX);
  auto* block = static_cast<Block*>(std::malloc(total));
  CHECK(block != nullptr);
  block->capacity = static_cast<std::uint32_t>(total - sizeof(Block));
  block->size_class = size_class;
  return block;
}

Block* BlockPool::get(std::size_t capacity) {
  const std::size_t total = capacity + sizeof(Block);
  Block* block = nullptr;
  if (capacity > kLargest) {
    block = allocate(total, kUnpooled);
  } else {
    const std::uint8_t size_class = class_of(total);
    block = free_[size_class];
    if (block != nullptr) [[likely]] {
      free_[size_class] = block->next;
      cached_ -= total_of(block);
    } else {
      block = allocate(std::size_t{1} << (size_class + kSmallestLog2), size_class);
    }
  }
  block->next = nullptr;
  block->begin = block->end = 0;
  used_.add(total_of(block));
  return block;
}

void BlockPool::put(Block* block) {
  const std::size_t total = total_of(block);
  used_.subtract(total);
  if (block->size_class == kUnpooled || cached_ + total > cached_max_) {
    std::free(block);
    return;
  }
  cached_ += total;
  block->next = free_[block->size_class];
  free_[block->size_class] = block;
}

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
