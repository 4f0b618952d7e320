// Tells the reply cache of the writes of this worker's clients: from when each goes out until it
// was answered or given up, nothing of its keys is served or kept. Belongs to one worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/cache/reply_cache.h"
#include "penstock/cluster/hash_slot.h"
#include "penstock/command/command.h"
#include "penstock/command/key_finder.h"
#include "penstock/resp/request.h"
#include "penstock/stats/worker_stats.h"

namespace penstock::session {

class OwnWrites {
 public:
  // Stands for the keys of one write in its place among the replies: 24 bits, never 0.
  using Mark = std::uint32_t;

  OwnWrites(cache::ReplyCache& cache, stats::WorkerStats& stats) : cache_(cache), stats_(stats) {}

  Mark begin(const command::Command& command, const resp::Request& request);
  void end(Mark mark);

 private:
  // Marks from here on are of several keys, or of a slot.
  static constexpr Mark kFirstSet = 1U << 23;

  struct Set {
    std::vector<std::uint32_t> cells;
    bool has_slot = false;
    cluster::Slot slot = cluster::kNoSlot;  // no slot: all of them
  };

  std::uint32_t begin_key(std::string_view key);
  Mark begin_set(const command::Command& command, const resp::Request& request);

  cache::ReplyCache& cache_;
  stats::WorkerStats& stats_;
  std::vector<command::KeyPosition> keys_;
  std::vector<Set> sets_;
  std::vector<std::uint32_t> free_;
};

}  // namespace penstock::session
