// Batches of bytes from one thread to one other: the writer fills a batch in place and publishes it
// once per turn; the reader works through published batches and hands each back empty.
//
//      writer:  reserve(), commit()... publish()  ->  [ batch | batch | batch ]  ->  front(), pop()
//
// Bounded: when all batches are under way, the one being filled stays with the writer and grows;
// has_room() tells it to stop. One atomic store per batch, nothing per item. Memory is recycled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

#include "penstock/stats/counter.h"

namespace penstock::sharding {

class BatchRing {
 public:
  // A batch of this size takes no more requests; one request alone may be larger.
  static constexpr std::size_t kBatchBytes = 256 * 1024;
  static constexpr std::uint32_t kBatches = 4;

  BatchRing() = default;
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;
  ~BatchRing() {
    for (Batch& batch : batches_) std::free(batch.data);
  }

  // For the writer.
  bool has_room() const { return filling().size + filling().elsewhere < kBatchBytes; }
  std::size_t unpublished() const { return filling().size; }
  // Room for `bytes` more in one piece; commit() makes them part of the batch.
  char* reserve(std::size_t bytes) {
    Batch& batch = filling();
    if (batch.capacity - batch.size < bytes) [[unlikely]] grow(batch, bytes);
    return batch.data + batch.size;
  }
  // `elsewhere`: bytes that an item points at, and that cross with it.
  void commit(std::size_t bytes, std::size_t elsewhere = 0) {
    filling().size += bytes;
    filling().elsewhere += elsewhere;
    sent_elsewhere_ += elsewhere;
  }
  // Makes what was committed visible to the reader; false when there is nothing, or no free batch
  // to go on with. Sequentially consistent, for the sake of the reader's "asleep" flag.
  bool publish() {
    if (filling().size == 0) return false;
    if (written_ + 1 - popped_.load(std::memory_order_acquire) >= kBatches) return false;
    published_.store(++written_, std::memory_order_seq_cst);
    filling().size = filling().elsewhere = 0;
    return true;
  }
  // Now and then, by the writer: when nothing was published since the last time, the memory of
  // batches that are not under way goes back to the system.
  void trim() {
    if (std::exchange(trimmed_at_, written_) != written_ || filling().size > 0) return;
    const std::uint32_t end = popped_.load(std::memory_order_acquire) + kBatches;
    for (std::uint32_t i = written_; i != end; ++i) {
      Batch& batch = batches_[i % kBatches];
      allocated_ -= batch.capacity;
      release(batch);
    }
  }
  // Bytes of memory that the batches hold, and that are under way with them.
  std::size_t memory() const {
    return allocated_ - freed_by_reader_.get() + sent_elsewhere_ - taken_elsewhere_.get();
  }

  // For the reader.
  bool empty() const { return published_.load(std::memory_order_seq_cst) == read_; }
  // The oldest batch; good until pop(). Only when not empty.
  std::string_view front() const {
    const Batch& batch = batches_[read_ % kBatches];
    return {batch.data, batch.size};
  }
  // Gives it back to the writer; what a burst made large goes back to the system.
  void pop() {
    Batch& batch = batches_[read_ % kBatches];
    taken_elsewhere_.add(batch.elsewhere);
    if (batch.capacity > kKeptBytes) [[unlikely]] {
      freed_by_reader_.add(batch.capacity);
      release(batch);
    }
    popped_.store(++read_, std::memory_order_release);
  }

 private:
  static constexpr std::size_t kFirstBytes = 4096;
  static constexpr std::size_t kKeptBytes = 2 * kBatchBytes;

  struct alignas(64) Batch {
    char* data = nullptr;
    std::size_t size = 0;
    std::size_t elsewhere = 0;
    std::size_t capacity = 0;
  };

  Batch& filling() { return batches_[written_ % kBatches]; }
  const Batch& filling() const { return batches_[written_ % kBatches]; }

  void grow(Batch& batch, std::size_t bytes) {
    std::size_t capacity = batch.capacity == 0 ? kFirstBytes : 2 * batch.capacity;
    while (capacity - batch.size < bytes) capacity *= 2;
    void* const larger = std::realloc(batch.data, capacity);
    if (larger == nullptr) throw std::bad_alloc();
    allocated_ += capacity - batch.capacity;
    batch.data = static_cast<char*>(larger);
    batch.capacity = capacity;
  }

  static void release(Batch& batch) {
    std::free(batch.data);
    batch.data = nullptr;
    batch.capacity = 0;
  }

  std::array<Batch, kBatches> batches_{};
  // The writer's.
  alignas(64) std::atomic<std::uint32_t> published_{0};
  std::uint32_t written_ = 0;
  std::size_t allocated_ = 0;  // and not freed by the writer
  std::size_t sent_elsewhere_ = 0;
  std::uint32_t trimmed_at_ = 0;
  // The reader's.
  alignas(64) std::atomic<std::uint32_t> popped_{0};
  std::uint32_t read_ = 0;
  stats::Counter freed_by_reader_, taken_elsewhere_;
};

}  // namespace penstock::sharding
