// Which keys a write changes.
// SPDX-License-Identifier: Apache-2.0
#include "session/own_writes.h"

namespace penstock::session {

std::uint32_t OwnWrites::begin_key(std::string_view key) {
  const std::uint64_t hash = cache_.hash(key);
  stats_.cache_dropped_written.add(cache_.begin_write(hash));
  return cache_.cell_of(hash);
}

OwnWrites::Mark OwnWrites::begin(const command::Command& command, const resp::Request& request) {
  stats_.cache_writes.add();
  if (command.cache_role == command::CacheRole::write) [[likely]] {
    if (command.key_shape == command::KeyShape::argument_1) return begin_key(request[1]) + 1;
    if (command.key_shape == command::KeyShape::argument_2) return begin_key(request[2]) + 1;
  }
  return begin_set(command, request);
}

// A script may change what it does not name, but only in the slot of the keys that it does; one
// that names none, anything.
OwnWrites::Mark OwnWrites::begin_set(const command::Command& command,
                                     const resp::Request& request) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(sets_.size()));
    sets_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Set& set = sets_[index];
  const bool known = command::find_keys(command, request, keys_) && !keys_.empty();
  set.has_slot = !known || command.cache_role == command::CacheRole::script;
  if (set.has_slot) {
    set.slot = known ? cluster::hash_slot(request[keys_[0].argument]) : cluster::kNoSlot;
    cache_.slots().begin(set.slot);
    stats_.cache_slots_forgotten.add();
  } else {
    for (const command::KeyPosition& key : keys_) {
      set.cells.push_back(begin_key(request[key.argument]));
    }
  }
  return kFirstSet + index;
}

void OwnWrites::end(Mark mark) {
  if (mark < kFirstSet) return cache_.end_write(mark - 1);
  Set& set = sets_[mark - kFirstSet];
  for (const std::uint32_t cell : set.cells) cache_.end_write(cell);
  if (set.has_slot) cache_.slots().end(set.slot);
  set.cells.clear();
  free_.push_back(mark - kFirstSet);
}

}  // namespace penstock::session
