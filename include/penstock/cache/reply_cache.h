// Replies to reads, kept for the whole process: found without a lock by any worker, dropped for all
// of them at once. Knows keys and bytes, not commands or clients.
//
//      find() ............ hit: copy the frame within this turn
//      claim() -> store()  a reply that was asked for, kept if nothing came in between
//      begin_write() -> end_write()   own writes: nothing of the key is kept or served meanwhile
//      invalidate()        a server's word, by the tracker of the connection that read the key
//
// Divided into shards, each with a lock for everything but finding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "penstock/cache/grace_periods.h"
#include "penstock/cache/s3_fifo.h"
#include "penstock/cache/validity.h"

namespace penstock::cache {

// Who may be served with a reply: those whose own requests go the way that it came, so that nobody
// goes back in time. One for each worker's own pipes of a protocol, one for the shared ones.
using ViewId = std::uint16_t;

// What a reply is kept under.
struct ReadName {
  std::uint64_t hash = 0;       // of the key alone, by ReplyCache::hash()
  std::uint16_t command = 0;    // its index in the command table
  ViewId view = 0;
  std::string_view arguments;   // everything behind the command's name, as it stands in a request

  bool operator==(const ReadName&) const = default;
};

// The right to keep one reply, as things stood when it was asked for.
struct Claim {
  std::uint64_t hash;
  SourceId source;
  std::uint32_t begun;  // own writes of the key's cell
  std::uint32_t epoch;  // of the slot
  Slot slot;
};

// A kept reply. Its bytes do not change while somebody may look at them: when its key changes it
// dies, and comes to life again with the key's next value if that fits.
class Entry : public QueueNode {
 public:
  std::string_view frame() const { return {bytes() + arguments_size_, frame_size_}; }

 private:
  friend class ReplyCache;
  ReadName name() const { return {hash_, command_, view_, {bytes(), arguments_size_}}; }
  const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  static Entry* make(const Claim& claim, const ReadName& name, std::string_view frame,
                     Nanos expires);
  void fill(const Claim& claim, std::string_view frame, Nanos expires);
  bool is_dead() const { return expires_.load(std::memory_order_relaxed) == 0; }

  std::atomic<Entry*> next_{nullptr};  // in its bucket
  std::uint64_t hash_ = 0;
  std::atomic<Nanos> expires_{0};  // 0: dead
  std::uint64_t died_ = 0;         // a stamp of then
  std::uint32_t epoch_ = 0;  // of its slot
  SourceId source_;
  std::uint32_t arguments_size_ = 0, frame_size_ = 0;
  std::uint16_t command_ = 0;
  ViewId view_ = 0;
  Slot slot_ = 0;
};

class ReplyCache {
 public:
  // `bytes`: of everything the cache has, for all workers together.
  ReplyCache(std::size_t bytes, std::size_t workers, std::uint64_t seed);
  ReplyCache(const ReplyCache&) = delete;
  ReplyCache& operator=(const ReplyCache&) = delete;
  ~ReplyCache();

  std::uint64_t hash(std::string_view key) const;

  // A reply that may be served now, or null. Good until the worker's next grace().pass().
  const Entry* find(const ReadName& name, Nanos now) const;

  // A write of a key goes out, and was answered or lost. How many entries went; the cell that
  // end_write() takes is cell_of().
  std::size_t begin_write(std::uint64_t hash);
  void end_write(std::uint32_t cell);
  std::uint32_t cell_of(std::uint64_t hash) const;

  // A read goes out, or a write whose value is to be kept: of those there must be no other.
  enum class Of : std::uint8_t { read, own_write };
  std::optional<Claim> claim(std::uint64_t hash, Slot slot, SourceId source, Of of);
  // False when something came in between, or it is too large.
  bool store(const Claim& claim, const ReadName& name, std::string_view frame, Nanos expires);

  // A key changed, or may have: what came from `source` goes; how many entries. On the thread that
  // stores for the source.
  std::size_t invalidate(std::uint64_t hash, SourceId source);

  // Off: nothing is kept or served, and own writes need not be told. On: they have to be told, and
  // replies are kept as soon as every worker has settled: all that its clients sent before it saw
  // this period was answered.
  void switch_on();
  void switch_off();
  bool is_on() const { return period() % 2 == 1; }
  // One more with every switch.
  std::uint32_t period() const { return period_.load(std::memory_order_acquire); }
  void settle(std::uint32_t period);
  bool keeps() const { return unsettled_.load(std::memory_order_acquire) == 0 && is_on(); }

  void clear();
  void resize(std::size_t bytes);
  // A part of the table at a time: what cannot be served any more goes.
  void sweep(Nanos now);

  Sources& sources() { return sources_; }
  SlotEpochs& slots() { return slots_; }
  GracePeriods& grace() { return grace_; }

  struct Totals {
    std::size_t entries = 0, bytes = 0;  // bytes: with everything around the entries
    std::uint64_t evictions = 0, expired = 0;
  };
  Totals totals() const;
  std::size_t limit() const { return limit_.load(std::memory_order_relaxed); }

 private:
  struct Shard;

  Shard& shard_of(std::uint64_t hash) const;
  std::atomic<Entry*>& bucket_of(std::uint64_t hash) const;
  bool is_servable(const Entry& entry, Nanos now) const;
  void make_tables();
  template <typename Which>
  std::size_t kill_if(Shard& shard, std::uint64_t hash, Which which);
  bool revive(Shard& shard, Entry& entry, const Claim& claim, std::string_view frame,
              Nanos expires);
  void add(Shard& shard, Entry& entry);
  template <typename Which>
  std::size_t remove_if(Shard& shard, std::uint64_t hash, Which which);
  void unlink(Entry& entry);
  void remove(Shard& shard, Entry& entry);
  void retire(Shard& shard, Entry& entry);
  void collect(Shard& shard);
  void make_room(Shard& shard, std::size_t bytes);

  const std::uint64_t seed_;
  const std::size_t workers_;
  std::mutex switch_mutex_;
  std::atomic<std::uint32_t> period_{0};      // odd while it is on
  std::atomic<std::size_t> unsettled_{0};     // workers
  std::size_t shard_count_ = 1;
  int shard_shift_ = 63;
  std::atomic<std::size_t> fixed_bytes_{0};  // of the tables
  std::atomic<std::size_t> limit_;
  std::atomic<std::size_t> swept_{0};
  std::unique_ptr<Shard[]> shards_;
  // Of all shards, one after the other: apart from the locks, which are written all the time.
  std::unique_ptr<std::atomic<Entry*>[]> buckets_;
  std::size_t bucket_mask_ = 0;  // within a shard
  Sources sources_;
  SlotEpochs slots_;
  GracePeriods grace_;
};

}  // namespace penstock::cache
