// The size of the reply cache: its tables, eviction, and memory that readers may still look at.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>

#include "cache/shard.h"
#include "penstock/cache/reply_cache.h"

namespace penstock::cache {
namespace {

// A shard for every two megabytes, within these.
constexpr std::size_t kShardBytes = 2 << 20;
constexpr std::size_t kShardsMax = 64;

// One bucket for so many bytes; a small value with its key and what surrounds it has about these.
constexpr std::size_t kBytesPerBucket = 256;

// Unlinked entries are freed in batches of this.
constexpr std::size_t kRetiredBatch = 64;

// One part in so many is left to what malloc loses between entries of changing sizes.
constexpr std::size_t kMallocLoses = 8;

// Buckets that one sweep() looks at.
constexpr std::size_t kSweptBuckets = 256;

}  // namespace

ReplyCache::ReplyCache(std::size_t bytes, std::size_t workers, std::uint64_t seed)
    : seed_(seed), workers_(workers), limit_(bytes), grace_(workers) {
  shard_count_ = std::bit_floor(std::clamp<std::size_t>(bytes / kShardBytes, 1, kShardsMax));
  shard_shift_ = 64 - std::countr_zero(shard_count_);
  shards_ = std::make_unique<Shard[]>(shard_count_);
}

// For the size that the cache has as it is first switched on; they take their memory from then on.
void ReplyCache::make_tables() {
  const std::size_t buckets =
      std::bit_ceil(std::max<std::size_t>(limit() / shard_count_ / kBytesPerBucket, 64));
  bucket_mask_ = buckets - 1;
  buckets_ = std::make_unique<std::atomic<Entry*>[]>(shard_count_ * buckets);
  for (std::size_t i = 0; i < shard_count_; ++i) shards_[i].ghosts.assign(buckets, 0);
  fixed_bytes_.store(
      shard_count_ * (sizeof(Shard) + buckets * (sizeof(Entry*) + sizeof(std::uint32_t))),
      std::memory_order_relaxed);
  resize(limit());
}

ReplyCache::~ReplyCache() {
  for (std::size_t i = 0; i < shard_count_; ++i) {
    Shard& shard = shards_[i];
    while (QueueNode* node = shard.queues.evict(0)) std::free(static_cast<Entry*>(node));
    for (const Shard::Retired& each : shard.retired) std::free(each.entry);
  }
}

// Some reader may still look at it.
void ReplyCache::retire(Shard& shard, Entry& entry) {
  if (!entry.is_dead()) shard.entries.subtract();
  shard.bytes.set(shard.queues.bytes());
  shard.retired_bytes += entry.QueueNode::bytes;
  shard.retired.push_back({grace_.stamp(), &entry});
  if (shard.retired.size() >= kRetiredBatch) collect(shard);
}

void ReplyCache::collect(Shard& shard) {
  if (shard.retired.empty()) return;
  const std::uint64_t over = grace_.over();
  while (!shard.retired.empty() && shard.retired.front().stamp < over) {
    Entry* const entry = shard.retired.front().entry;
    shard.retired_bytes -= entry->QueueNode::bytes;
    std::free(entry);
    shard.retired.pop_front();
  }
}

void ReplyCache::make_room(Shard& shard, std::size_t bytes) {
  while (shard.queues.bytes() + bytes > shard.limit) {
    QueueNode* const node = shard.queues.evict(shard.limit);
    if (node == nullptr) return;
    Entry& entry = *static_cast<Entry*>(node);
    if (!entry.in_main) shard.ghost(entry.hash_) = Shard::ghost_of(entry.hash_);
    unlink(entry);
    retire(shard, entry);
    shard.evictions.add();
  }
}

void ReplyCache::switch_on() {
  const std::lock_guard lock(switch_mutex_);
  if (is_on()) return;
  if (buckets_ == nullptr) make_tables();
  unsettled_.store(workers_, std::memory_order_release);
  period_.fetch_add(1, std::memory_order_acq_rel);
}

void ReplyCache::switch_off() {
  const std::lock_guard lock(switch_mutex_);
  if (!is_on()) return;
  period_.fetch_add(1, std::memory_order_acq_rel);
  clear();
}

void ReplyCache::settle(std::uint32_t period) {
  const std::lock_guard lock(switch_mutex_);
  if (period == this->period()) unsettled_.fetch_sub(1, std::memory_order_acq_rel);
}

void ReplyCache::clear() {
  for (std::size_t i = 0; i < shard_count_; ++i) {
    const std::lock_guard lock(shards_[i].mutex);
    while (QueueNode* node = shards_[i].queues.evict(0)) {
      unlink(*static_cast<Entry*>(node));
      retire(shards_[i], *static_cast<Entry*>(node));
    }
    // A claim of before must not bring anything back.
    for (Shard::Cell& cell : shards_[i].cells) ++cell.begun;
  }
}

// The tables stay as they are: they were made for the size at the start. A much smaller cache has
// them on top of half of its size.
void ReplyCache::resize(std::size_t bytes) {
  limit_.store(bytes, std::memory_order_relaxed);
  const std::size_t tables = fixed_bytes_.load(std::memory_order_relaxed);
  const std::size_t rest = bytes - std::min(bytes / 2, tables);
  const std::size_t left = rest - rest / kMallocLoses;
  for (std::size_t i = 0; i < shard_count_; ++i) {
    const std::lock_guard lock(shards_[i].mutex);
    shards_[i].limit = left / shard_count_;
    make_room(shards_[i], 0);
  }
}

void ReplyCache::sweep(Nanos now) {
  const std::size_t number = swept_.fetch_add(1, std::memory_order_relaxed) % shard_count_;
  Shard& shard = shards_[number];
  const std::lock_guard lock(shard.mutex);
  for (std::size_t i = 0; i < std::min(kSweptBuckets, bucket_mask_ + 1); ++i) {
    shard.sweep_at = (shard.sweep_at + 1) & bucket_mask_;
    const std::size_t bucket = number * (bucket_mask_ + 1) + shard.sweep_at;
    Entry* entry = buckets_[bucket].load(std::memory_order_relaxed);
    while (entry != nullptr) {
      Entry* const next = entry->next_.load(std::memory_order_relaxed);
      const bool stays = now < entry->expires_.load(std::memory_order_relaxed) &&
                         entry->epoch_ == slots_.epoch(entry->slot_) &&
                         sources_.is_current(entry->source_);
      if (!stays) {
        shard.expired.add(entry->is_dead() ? 0 : 1);
        remove(shard, *entry);
      }
      entry = next;
    }
  }
  collect(shard);
}

ReplyCache::Totals ReplyCache::totals() const {
  Totals totals;
  totals.bytes = fixed_bytes_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < shard_count_; ++i) {
    totals.entries += shards_[i].entries.get();
    totals.bytes += shards_[i].bytes.get();
    totals.evictions += shards_[i].evictions.get();
    totals.expired += shards_[i].expired.get();
  }
  return totals;
}

}  // namespace penstock::cache
