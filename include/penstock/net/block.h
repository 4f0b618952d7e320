// Byte blocks in size classes, recycled per worker: the memory behind every queue of bytes.
// A pool belongs to one worker, and its blocks with it, but those that give_away() hands on. Other
// threads read bytes_used().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "penstock/stats/counter.h"

namespace penstock::net {

// A header followed by `capacity` bytes, of which [begin, end) hold data.
struct Block {
  Block* next;
  std::uint32_t capacity;
  std::uint32_t begin;
  std::uint32_t end;
  std::uint8_t size_class;

  char* data() { return reinterpret_cast<char*>(this + 1); }
  std::string_view bytes() { return {data() + begin, end - begin}; }
  std::uint32_t room() const { return capacity - end; }
};

class BlockPool {
 public:
  // What the smallest and the largest recycled block hold; beyond that, malloc and free.
  static constexpr std::size_t kSmallest = 128 - sizeof(Block);
  static constexpr std::size_t kLargest = 65536 - sizeof(Block);

  // Keeps at most `cached_bytes_max` of free blocks.
  explicit BlockPool(std::size_t cached_bytes_max = 16 << 20) : cached_max_(cached_bytes_max) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool() { trim(0); }

  // A block of at least `capacity` bytes (under 4 GiB), empty, with no next.
  Block* get(std::size_t capacity) {
    const std::size_t total = capacity + sizeof(Block);
    if (total <= kLargest + sizeof(Block)) [[likely]] {
      const std::uint8_t size_class = class_of(total);
      if (Block* block = free_[size_class]) [[likely]] {
        free_[size_class] = block->next;
        cached_ -= total_of(block);
        return start(block);
      }
    }
    return start(allocate(total));
  }
  void put(Block* block) {
    const std::size_t total = total_of(block);
    used_.subtract(total);
    if (block->size_class == kUnpooled || cached_ + total > cached_max_) [[unlikely]] {
      return release(block);
    }
    cached_ += total;
    block->next = free_[block->size_class];
    free_[block->size_class] = block;
  }
  void put_chain(Block* block);

  // The same data in a block of at least `capacity` bytes; `block` is given back.
  Block* grow(Block* block, std::size_t capacity);

  // A block that is too large to be recycled may leave this pool for another worker's.
  static bool can_move(const Block* block) { return block->size_class == kUnpooled; }
  void give_away(Block* block) { used_.subtract(total_of(block)); }
  void take_over(Block* block) { used_.add(total_of(block)); }

  // Gives free blocks back to the system until no more than `bytes` are cached.
  void trim(std::size_t bytes);

  std::size_t bytes_used() const { return used_.get(); }
  std::size_t bytes_cached() const { return cached_; }

 private:
  static constexpr std::uint8_t kClasses = 10;  // 128 bytes .. 64 KiB, header included
  static constexpr std::uint8_t kUnpooled = 255;

  static constexpr int kSmallestLog2 = 7;

  static std::size_t total_of(const Block* block) { return sizeof(Block) + block->capacity; }
  static std::uint8_t class_of(std::size_t total) {
    const int log2 = static_cast<int>(std::bit_width(total - 1));
    return static_cast<std::uint8_t>(log2 <= kSmallestLog2 ? 0 : log2 - kSmallestLog2);
  }
  Block* start(Block* block) {
    block->next = nullptr;
    block->begin = block->end = 0;
    used_.add(total_of(block));
    return block;
  }
  static Block* allocate(std::size_t total);
  static void release(Block* block);

  std::array<Block*, kClasses> free_{};
  std::size_t cached_ = 0;
  std::size_t cached_max_;
  stats::Counter used_;
};

}  // namespace penstock::net
