// A ring of receive buffers that the kernel picks from.
// SPDX-License-Identifier: Apache-2.0
#include "net/buffer_ring.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace penstock::net {
namespace {

void* map_memory(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  return memory;
}

}  // namespace

BufferRing::BufferRing(io_uring& ring, std::uint16_t group, unsigned count, unsigned bytes)
    : ring_(ring), group_(group), count_(count), bytes_(bytes),
      ring_bytes_(count * sizeof(io_uring_buf)) {
  buffers_ = static_cast<io_uring_buf_ring*>(map_memory(ring_bytes_));
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(buffers_);
  registration.ring_entries = count;
  registration.bgid = group;
  const int error = io_uring_register_buf_ring(&ring, &registration, 0);
  if (error < 0) {
    munmap(buffers_, ring_bytes_);
    throw std::system_error(-error, std::generic_category(), "io_uring buffer ring");
  }
  io_uring_buf_ring_init(buffers_);
  memory_ = static_cast<char*>(map_memory(std::size_t{count} * bytes));
  for (unsigned id = 0; id < count; ++id) recycle(static_cast<std::uint16_t>(id));
  publish();
}

BufferRing::~BufferRing() {
  io_uring_unregister_buf_ring(&ring_, group_);
  munmap(buffers_, ring_bytes_);
  munmap(memory_, std::size_t{count_} * bytes_);
}

void BufferRing::recycle(std::uint16_t id) {
  io_uring_buf_ring_add(buffers_, memory_ + std::size_t{id} * bytes_, bytes_, id,
                        static_cast<int>(count_ - 1), unpublished_++);
}

void BufferRing::publish() {
  if (unpublished_ > 0) io_uring_buf_ring_advance(buffers_, unpublished_);
  unpublished_ = 0;
}

}  // namespace penstock::net
