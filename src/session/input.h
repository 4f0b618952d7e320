// Bytes of one client that could not be handled where they arrived: a torn frame, or requests that
// must wait. Exists only while needed; spare ones are kept by the worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "penstock/net/block.h"
#include "penstock/resp/request_scanner.h"

namespace penstock::session {

class Input {
 public:
  explicit Input(net::BlockPool& pool) : pool_(pool) {}
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input() { clear(); }

  std::string_view bytes() const {
    return block_ == nullptr ? std::string_view() : block_->bytes();
  }
  std::size_t size() const { return bytes().size(); }

  // `expected`: how many more bytes the frame is known to need. Memory grows to what is expected,
  // by a quarter at least and to the double at most of what has arrived.
  void append(std::string_view more, std::size_t expected) {
    if (block_ == nullptr) block_ = pool_.get(more.size() + kSlack);
    if (block_->room() < more.size()) make_room(more.size(), expected);
    std::memcpy(block_->data() + block_->end, more.data(), more.size());
    block_->end += static_cast<std::uint32_t>(more.size());
  }
  void drop_front(std::size_t count) { block_->begin += static_cast<std::uint32_t>(count); }
  // Hands over the block, cut to its first `size` bytes.
  net::Block* release(std::size_t size) {
    block_->end = block_->begin + static_cast<std::uint32_t>(size);
    return std::exchange(block_, nullptr);
  }
  void clear() {
    if (block_ != nullptr) pool_.put(std::exchange(block_, nullptr));
    scanner.reset();
  }

  resp::RequestScanner scanner;  // of the frame at the front

 private:
  static constexpr std::size_t kSlack = 1024;

  void make_room(std::size_t more, std::size_t expected) {
    const std::size_t used = block_->end - block_->begin;
    if (block_->begin > 0) {
      std::memmove(block_->data(), block_->data() + block_->begin, used);
      block_->begin = 0;
      block_->end = static_cast<std::uint32_t>(used);
      if (block_->room() >= more) return;
    }
    const std::size_t ahead = std::min(used, std::max(expected + kSlack, used / 4));
    block_ = pool_.grow(block_, used + std::max(more, ahead));
  }

  net::BlockPool& pool_;
  net::Block* block_ = nullptr;
};

}  // namespace penstock::session
