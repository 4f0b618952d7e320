// A ring of receive buffers that the kernel picks from (provided buffers, mapped).
// Owned by a UringReactor; consumed buffers go back with recycle(), visible after publish().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>

namespace penstock::net {

class BufferRing {
 public:
  // Throws std::system_error. `count` is a power of two, at most 32768.
  BufferRing(io_uring& ring, std::uint16_t group, unsigned count, unsigned bytes);
  BufferRing(const BufferRing&) = delete;
  BufferRing& operator=(const BufferRing&) = delete;
  ~BufferRing();

  std::uint16_t group() const { return group_; }
  const char* data(std::uint16_t id) const { return memory_ + std::size_t{id} * bytes_; }
  void recycle(std::uint16_t id);
  void publish();

 private:
  io_uring& ring_;
  std::uint16_t group_;
  unsigned count_;
  unsigned bytes_;
  std::size_t ring_bytes_;
  io_uring_buf_ring* buffers_ = nullptr;
  char* memory_ = nullptr;
  int unpublished_ = 0;
};

}  // namespace penstock::net
