// One shard of the reply cache: its lock and what the lock guards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "penstock/cache/reply_cache.h"
#include "penstock/stats/counter.h"

namespace penstock::cache {

// Own writes are counted in so many cells of each shard. Two keys in one cell cost a fill now and
// then, nothing else.
constexpr std::uint32_t kCells = 1024;

struct alignas(64) ReplyCache::Shard {
  struct Cell {
    std::uint32_t begun = 0, in_flight = 0;
  };
  struct Retired {
    std::uint64_t stamp;
    Entry* entry;
  };

  std::uint32_t& ghost(std::uint64_t hash) { return ghosts[hash & (ghosts.size() - 1)]; }
  static std::uint32_t ghost_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 20) | 1;
  }
  static std::uint32_t cell_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 40) % kCells;
  }

  std::mutex mutex;
  std::atomic<std::size_t> limit{0};
  S3Fifo queues;
  std::vector<std::uint32_t> ghosts;  // of what left the small queue, by their hashes
  std::array<Cell, kCells> cells{};
  std::deque<Retired> retired;
  std::size_t retired_bytes = 0;
  std::size_t sweep_at = 0;
  stats::Counter entries, bytes, evictions, expired;
};

}  // namespace penstock::cache
