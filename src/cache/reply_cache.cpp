// Finding, keeping and dropping replies. Room for them is in upkeep.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cache/reply_cache.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cache/shard.h"

namespace penstock::cache {
namespace {

// One reply may have this share of its shard; a larger one would push out too many others.
constexpr std::size_t kLargestShare = 8;

// So many replies of one key at most, such as fields of a hash: they share a bucket.
constexpr std::size_t kSiblingsMax = 32;

// malloc's own word in front of a block.
constexpr std::size_t kMallocBytes = 8;

}  // namespace

std::uint64_t ReplyCache::hash(std::string_view key) const {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed_);
}

// The highest bits choose the shard, the lowest the bucket.
ReplyCache::Shard& ReplyCache::shard_of(std::uint64_t hash) const {
  return shards_[shard_count_ == 1 ? 0 : hash >> shard_shift_];
}

std::atomic<Entry*>& ReplyCache::bucket_of(std::uint64_t hash) const {
  const std::size_t shard = shard_count_ == 1 ? 0 : hash >> shard_shift_;
  return buckets_[shard * (bucket_mask_ + 1) + (hash & bucket_mask_)];
}

std::uint32_t ReplyCache::cell_of(std::uint64_t hash) const {
  const auto shard = static_cast<std::uint32_t>(&shard_of(hash) - shards_.get());
  return shard * kCells + Shard::cell_of(hash);
}

bool ReplyCache::is_servable(const Entry& entry, Nanos now) const {
  return now < entry.expires_.load(std::memory_order_seq_cst) &&
         entry.epoch_ == slots_.epoch(entry.slot_) && sources_.serves(entry.source_, now);
}

const Entry* ReplyCache::find(const ReadName& name, Nanos now) const {
  const Entry* entry = bucket_of(name.hash).load(std::memory_order_seq_cst);
  for (; entry != nullptr; entry = entry->next_.load(std::memory_order_seq_cst)) {
    if (entry->hash_ != name.hash || entry->name() != name) continue;
    if (!is_servable(*entry, now)) return nullptr;
    if (!entry->hit.load(std::memory_order_relaxed)) {
      entry->hit.store(true, std::memory_order_relaxed);
    }
    return entry;
  }
  return nullptr;
}

std::size_t ReplyCache::begin_write(std::uint64_t hash) {
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  Shard::Cell& cell = shard.cells[Shard::cell_of(hash)];
  ++cell.begun;
  ++cell.in_flight;
  return kill_if(shard, hash, [](const Entry&) { return true; });
}

void ReplyCache::end_write(std::uint32_t cell) {
  Shard& shard = shards_[cell / kCells];
  const std::lock_guard lock(shard.mutex);
  --shard.cells[cell % kCells].in_flight;
}

std::optional<Claim> ReplyCache::claim(std::uint64_t hash, Slot slot, SourceId source,
                                       Of of) {
  // Before the look at what runs: what begins later changes it.
  const std::uint32_t epoch = slots_.epoch(slot);
  if (!slots_.is_quiet(slot)) return std::nullopt;
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  const Shard::Cell& cell = shard.cells[Shard::cell_of(hash)];
  if (cell.in_flight != (of == Of::own_write ? 1 : 0)) return std::nullopt;
  return Claim{hash, source, cell.begun, epoch, slot};
}

bool ReplyCache::store(const Claim& claim, const ReadName& name, std::string_view frame,
                       Nanos expires) {
  Shard& shard = shard_of(claim.hash);
  const std::size_t limit = shard.limit.load(std::memory_order_relaxed);
  const std::size_t size = sizeof(Entry) + name.arguments.size() + frame.size();
  if (size > limit / kLargestShare) return false;
  const std::lock_guard lock(shard.mutex);
  const bool good = shard.cells[Shard::cell_of(claim.hash)].begun == claim.begun &&
                    slots_.epoch(claim.slot) == claim.epoch && sources_.is_current(claim.source);
  if (!good) return false;
  Entry* same = nullptr;
  std::size_t siblings = 0;
  remove_if(shard, claim.hash, [&](Entry& other) {
    const bool is_same = other.name() == name;
    if (is_same) same = &other;
    siblings += is_same ? 0 : 1;
    return !is_same && other.is_dead();
  });
  if (same != nullptr && revive(shard, *same, claim, frame, expires)) return true;
  if (same != nullptr) remove(shard, *same);
  if (siblings >= kSiblingsMax || shard.retired_bytes > limit / kLargestShare) return false;
  add(shard, *Entry::make(claim, name, frame, expires));
  return true;
}

Entry* Entry::make(const Claim& claim, const ReadName& name, std::string_view frame,
                   Nanos expires) {
  void* const memory = std::malloc(sizeof(Entry) + name.arguments.size() + frame.size());
  if (memory == nullptr) throw std::bad_alloc();
  auto* const entry = new (memory) Entry;
  entry->QueueNode::bytes = static_cast<std::uint32_t>(malloc_usable_size(memory) + kMallocBytes);
  entry->hash_ = claim.hash;
  entry->command_ = name.command;
  entry->view_ = name.view;
  entry->slot_ = claim.slot;
  entry->arguments_size_ = static_cast<std::uint32_t>(name.arguments.size());
  std::memcpy(entry->bytes(), name.arguments.data(), name.arguments.size());
  entry->fill(claim, frame, expires);
  return entry;
}

// Only while nobody may look at it: it is new, or was dead for long enough.
void Entry::fill(const Claim& claim, std::string_view frame, Nanos expires) {
  epoch_ = claim.epoch;
  source_ = claim.source;
  frame_size_ = static_cast<std::uint32_t>(frame.size());
  std::memcpy(bytes() + arguments_size_, frame.data(), frame.size());
  expires_.store(expires, std::memory_order_release);
}

// In place: no memory and no links are touched but its own.
bool ReplyCache::revive(Shard& shard, Entry& entry, const Claim& claim, std::string_view frame,
                        Nanos expires) {
  const std::size_t room = entry.QueueNode::bytes - kMallocBytes;
  const std::size_t size = sizeof(Entry) + entry.arguments_size_ + frame.size();
  if (size > room || size < room / 2 || !entry.is_dead() || entry.died_ >= grace_.over()) {
    return false;
  }
  entry.fill(claim, frame, expires);
  shard.entries.add();
  return true;
}

void ReplyCache::add(Shard& shard, Entry& entry) {
  make_room(shard, entry.QueueNode::bytes);
  std::uint32_t& ghost = shard.ghost(entry.hash_);
  const bool returning = ghost == Shard::ghost_of(entry.hash_);
  if (returning) ghost = 0;
  shard.queues.insert(entry, returning);
  std::atomic<Entry*>& bucket = bucket_of(entry.hash_);
  entry.next_.store(bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
  bucket.store(&entry, std::memory_order_release);
  shard.entries.add();
  shard.bytes.set(shard.queues.bytes());
}

// Only its own thread stores for a source: what is not found without the lock is not there.
std::size_t ReplyCache::invalidate(std::uint64_t hash, SourceId source) {
  Shard& shard = shard_of(hash);
  const auto is_meant = [&](const Entry& entry) { return entry.source_ == source; };
  // One that lives is not written to in this turn, by whoever it was stored.
  const auto is_alive = [](const Entry& entry) {
    return entry.expires_.load(std::memory_order_seq_cst) != 0;
  };
  const Entry* entry = bucket_of(hash).load(std::memory_order_seq_cst);
  while (entry != nullptr &&
         !(entry->hash_ == hash && is_alive(*entry) && is_meant(*entry))) {
    entry = entry->next_.load(std::memory_order_seq_cst);
  }
  if (entry == nullptr) return 0;
  const std::lock_guard lock(shard.mutex);
  return kill_if(shard, hash, is_meant);
}

// Entries of a key that `which` picks die where they are. The lock is held.
template <typename Which>
std::size_t ReplyCache::kill_if(Shard& shard, std::uint64_t hash, Which which) {
  std::size_t killed = 0;
  Entry* entry = bucket_of(hash).load(std::memory_order_relaxed);
  for (; entry != nullptr; entry = entry->next_.load(std::memory_order_relaxed)) {
    if (entry->hash_ != hash || entry->is_dead() || !which(*entry)) continue;
    entry->expires_.store(0, std::memory_order_seq_cst);
    entry->died_ = grace_.stamp();
    entry->hit.store(false, std::memory_order_relaxed);
    shard.entries.subtract();
    ++killed;
  }
  return killed;
}

// Entries of a key that `which` picks leave the table. The lock is held.
template <typename Which>
std::size_t ReplyCache::remove_if(Shard& shard, std::uint64_t hash, Which which) {
  std::size_t removed = 0;
  Entry* entry = bucket_of(hash).load(std::memory_order_relaxed);
  while (entry != nullptr) {
    Entry* const next = entry->next_.load(std::memory_order_relaxed);
    if (entry->hash_ == hash && which(*entry)) {
      remove(shard, *entry);
      ++removed;
    }
    entry = next;
  }
  return removed;
}

void ReplyCache::remove(Shard& shard, Entry& entry) {
  shard.queues.remove(entry);
  unlink(entry);
  retire(shard, entry);
}

void ReplyCache::unlink(Entry& entry) {
  std::atomic<Entry*>* link = &bucket_of(entry.hash_);
  while (link->load(std::memory_order_relaxed) != &entry) {
    link = &link->load(std::memory_order_relaxed)->next_;
  }
  link->store(entry.next_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
}

}  // namespace penstock::cache
