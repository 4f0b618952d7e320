// Which entry goes when there is no room: S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are
// all you need for cache eviction", SOSP 2023). New entries pass through a small queue; those that
// were hit there go on to the main one, the others leave. In the main queue an entry that was hit
// gets another round. One bit per entry instead of the paper's two, and a quarter for the small
// queue instead of a tenth: both follow a hot set that moves faster (docs/reply_cache.md).
// No locks; the owner has one. `hit` alone may be set by other threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace penstock::cache {

// What the queues know of an entry.
struct QueueNode {
  QueueNode* older = nullptr;
  QueueNode* newer = nullptr;
  std::uint32_t bytes = 0;  // all memory that goes with it
  bool in_main = false;
  mutable std::atomic<bool> hit{false};  // since it was last looked at
};

class S3Fifo {
 public:
  // `returning`: it was here not long ago.
  void insert(QueueNode& node, bool returning) {
    node.in_main = returning;
    queue_of(node).push(node);
  }
  void remove(QueueNode& node) { queue_of(node).remove(node); }

  // Takes out what is worth the least; null when there is nothing. `limit`: bytes of both queues.
  QueueNode* evict(std::size_t limit) {
    while (true) {
      Fifo& queue = small_.bytes > limit / 4 || main_.oldest == nullptr ? small_ : main_;
      QueueNode* const node = queue.oldest;
      if (node == nullptr) return nullptr;
      queue.remove(*node);
      if (!node->hit.load(std::memory_order_relaxed)) return node;
      node->hit.store(false, std::memory_order_relaxed);
      node->in_main = true;
      main_.push(*node);
    }
  }

  std::size_t bytes() const { return small_.bytes + main_.bytes; }

 private:
  struct Fifo {
    QueueNode* oldest = nullptr;
    QueueNode* newest = nullptr;
    std::size_t bytes = 0;

    void push(QueueNode& node) {
      node.older = newest;
      node.newer = nullptr;
      (newest == nullptr ? oldest : newest->newer) = &node;
      newest = &node;
      bytes += node.bytes;
    }
    void remove(QueueNode& node) {
      (node.older == nullptr ? oldest : node.older->newer) = node.newer;
      (node.newer == nullptr ? newest : node.newer->older) = node.older;
      bytes -= node.bytes;
    }
  };

  Fifo& queue_of(const QueueNode& node) { return node.in_main ? main_ : small_; }

  Fifo small_, main_;
};

}  // namespace penstock::cache
