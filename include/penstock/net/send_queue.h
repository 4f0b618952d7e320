// A queue of bytes on their way to a socket: [retained | unsent]. What was sent stays retained
// until it is retired, so that a pipe can still read a request whose reply says "not here".
// Appending never moves bytes, so a send may be in flight meanwhile. One worker; no locks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "penstock/net/block.h"

namespace penstock::net {

class SendQueue {
 public:
  explicit SendQueue(BlockPool& pool) : pool_(pool) {}
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;
  ~SendQueue() { clear(); }

  // Copies bytes to the end; large ones may be split over blocks.
  void append(std::string_view bytes) {
    if (tail_ == nullptr || tail_->room() < bytes.size()) [[unlikely]] return append_split(bytes);
    std::memcpy(tail_->data() + tail_->end, bytes.data(), bytes.size());
    commit(bytes.size());
  }
  // Copies bytes to the end in one piece, so that front() can give them back in one piece.
  void append_whole(std::string_view bytes);
  // Room for `size` bytes in one piece at the end; commit() makes what was written there part of
  // the queue.
  char* reserve(std::size_t size);
  void commit(std::size_t size);
  // Takes over a block (or a chain) and its bytes.
  void adopt(Block* block);

  bool empty() const { return size() == 0; }
  std::size_t size() const { return retained_ + unsent_; }
  std::size_t unsent() const { return unsent_; }
  std::size_t retained() const { return retained_; }  // sent, not retired

  // Describes unsent bytes, oldest first; returns how many entries of `iov` were filled.
  std::size_t gather(std::span<iovec> iov) const;
  // The first `count` unsent bytes were handed to the kernel; they stay where they are.
  void mark_sent(std::size_t count);
  // The last `count` of the bytes handed over were not taken after all: they are unsent again.
  void unsend(std::size_t count);
  // The first `size` bytes of the queue, whole: they were appended by one append_whole().
  std::string_view front(std::size_t size) const;
  // Drops the first `count` bytes of the queue; all of them were sent.
  void retire(std::size_t count) {
    if (count >= head_left()) [[unlikely]] return retire_blocks(count);
    retained_ -= count;
    head_->begin += static_cast<std::uint32_t>(count);
  }
  void clear();

 private:
  std::size_t head_left() const {
    const std::size_t here = head_ == nullptr ? 0 : head_->end - head_->begin;
    return here < retained_ ? here : retained_;
  }
  std::string_view front_beyond(std::size_t size) const;
  void append_split(std::string_view bytes);
  void retire_blocks(std::size_t count);
  void add_block(std::size_t at_least);
  void release_head();

  BlockPool& pool_;
  Block* head_ = nullptr;    // oldest retained byte: at head_->begin
  Block* tail_ = nullptr;
  Block* unsent_block_ = nullptr;     // where the next byte to send is
  std::uint32_t unsent_offset_ = 0;   // and its offset from the block's data()
  std::size_t retained_ = 0;
  std::size_t unsent_ = 0;
};

inline char* SendQueue::reserve(std::size_t size) {
  if (tail_ == nullptr || tail_->room() < size) [[unlikely]] add_block(size);
  return tail_->data() + tail_->end;
}

inline void SendQueue::commit(std::size_t size) {
  tail_->end += static_cast<std::uint32_t>(size);
  unsent_ += size;
}

inline std::string_view SendQueue::front(std::size_t size) const {
  if (head_->end - head_->begin < size) [[unlikely]] return front_beyond(size);
  return {head_->data() + head_->begin, size};
}

inline void SendQueue::append_whole(std::string_view bytes) {
  std::memcpy(reserve(bytes.size()), bytes.data(), bytes.size());
  commit(bytes.size());
}

}  // namespace penstock::net
