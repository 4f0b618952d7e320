// What makes kept replies worthless all at once, without touching them: the connection that read
// them is gone or no longer proven alive, or their slot changed hands. Any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>


namespace penstock::cache {

using Nanos = std::int64_t;  // monotonic

// Keys that move together from node to node; a number of the caller's.
using Slot = std::uint16_t;
inline constexpr Slot kSlots = 16384;
inline constexpr Slot kNoSlot = 0xffff;

// One connection that reads with tracking on, from then until it, or its tracker, is lost.
struct SourceId {
  std::uint16_t index = 0xffff;
  std::uint32_t serial = 0;

  bool operator==(const SourceId&) const = default;
};

class Sources {
 public:
  static constexpr std::size_t kMax = 4096;

  // A source that does not serve yet; none (index 0xffff) when there are too many.
  SourceId open() {
    const std::lock_guard lock(mutex_);
    std::uint16_t index = next_;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (next_ < kMax) {
      ++next_;
    } else {
      return {};
    }
    return {index, all_[index].serial.load(std::memory_order_relaxed)};
  }
  // Everything that came from it is worthless at once.
  void close(SourceId source) {
    if (source.index >= kMax) return;
    renew(source);
    all_[source.index].proven_until.store(0, std::memory_order_release);
    const std::lock_guard lock(mutex_);
    free_.push_back(source.index);
  }
  // The same, and it goes on under another name.
  SourceId renew(SourceId source) {
    ++source.serial;
    all_[source.index].serial.store(source.serial, std::memory_order_release);
    return source;
  }
  void prove(SourceId source, Nanos until) {
    all_[source.index].proven_until.store(until, std::memory_order_release);
  }
  bool is_current(SourceId source) const {
    return all_[source.index].serial.load(std::memory_order_acquire) == source.serial;
  }
  bool serves(SourceId source, Nanos now) const {
    return is_current(source) &&
           now < all_[source.index].proven_until.load(std::memory_order_acquire);
  }

 private:
  struct Source {
    std::atomic<std::uint32_t> serial{0};
    std::atomic<Nanos> proven_until{0};
  };

  std::mutex mutex_;
  std::uint16_t next_ = 0;
  std::vector<std::uint16_t> free_;
  std::array<Source, kMax> all_;
};

// Slots, each with a number that changes when nothing known of its keys is good any more.
class SlotEpochs {
 public:
  // No slot: all of them.
  void forget(Slot slot) { at(slot).epoch.fetch_add(1, std::memory_order_acq_rel); }
  // Something runs that may change any key of the slot, until end().
  void begin(Slot slot) {
    at(slot).running.fetch_add(1, std::memory_order_acq_rel);
    forget(slot);
  }
  void end(Slot slot) { at(slot).running.fetch_sub(1, std::memory_order_acq_rel); }

  std::uint32_t epoch(Slot slot) const {
    return slots_[slot].epoch.load(std::memory_order_acquire) +
           all_.epoch.load(std::memory_order_acquire);
  }
  bool is_quiet(Slot slot) const {
    return slots_[slot].running.load(std::memory_order_acquire) == 0 &&
           all_.running.load(std::memory_order_acquire) == 0;
  }

 private:
  struct Epoch {
    std::atomic<std::uint32_t> epoch{0}, running{0};
  };
  Epoch& at(Slot slot) { return slot == kNoSlot ? all_ : slots_[slot]; }

  std::array<Epoch, kSlots> slots_;
  Epoch all_;
};

}  // namespace penstock::cache
