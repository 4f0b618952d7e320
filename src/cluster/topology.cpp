// Merging what nodes say into one map of the cluster.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cluster/topology.h"

#include <algorithm>
#include <map>
#include <set>

namespace penstock::cluster {
namespace {

using Owners = std::array<const Shard*, kSlots>;

Owners owners_of(const std::vector<Shard>& shards) {
  Owners owners{};
  for (const Shard& shard : shards) {
    for (const SlotRange& range : shard.slots) {
      for (std::size_t slot = range.first; slot <= range.last && slot < kSlots; ++slot) {
        owners[slot] = &shard;
      }
    }
  }
  return owners;
}

// Whether the view may replace the map: its node sees the majority and is not behind, or it speaks
// of another cluster altogether (one that was set up anew, with small epochs).
bool is_fresh(const Topology& before, const View& view) {
  if (before.empty()) return true;
  if (!view.state_ok) return false;
  if (view.current_epoch >= before.current_epoch()) return true;
  std::set<std::string_view> known(view.known_ids.begin(), view.known_ids.end());
  for (const Shard& shard : view.shards) known.insert(shard.master.id);
  return std::none_of(before.shards().begin(), before.shards().end(),
                      [&](const Shard& shard) { return known.contains(shard.master.id); });
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

std::shared_ptr<const Topology> Topology::merged(const Topology& before, const View& view) {
  auto after = std::make_shared<Topology>();
  const bool fresh = is_fresh(before, view);
  const Owners said = owners_of(view.shards);
  Owners owners = said;
  if (!fresh) {
    owners = owners_of(before.shards_);
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      if (said[slot] == nullptr) continue;
      if (owners[slot] == nullptr || said[slot]->epoch > owners[slot]->epoch) {
        owners[slot] = said[slot];
      }
    }
  }
  after->assign(owners);
  after->slotless_ = fresh ? view.slotless : before.slotless_;
  after->current_epoch_ =
      fresh ? view.current_epoch : std::max(before.current_epoch_, view.current_epoch);
  after->state_ok_ = fresh ? view.state_ok : before.state_ok_;
  after->version_ = before.version_ + 1;
  after->server_version_ =
      view.server_version.empty() ? before.server_version_ : view.server_version;
  return after;
}

std::shared_ptr<const Topology> Topology::down(const Topology& before) {
  auto after = std::make_shared<Topology>(before);
  after->state_ok_ = false;
  ++after->version_;
  return after;
}

// Takes over the shards that own something, with the slots they own now.
void Topology::assign(const std::array<const Shard*, kSlots>& owners) {
  std::map<const Shard*, std::uint16_t> indexes;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const Shard* owner = owners[slot];
    if (owner == nullptr) continue;
    const auto [found, added] =
        indexes.try_emplace(owner, static_cast<std::uint16_t>(shards_.size()));
    if (added) {
      shards_.push_back(*owner);
      shards_.back().slots.clear();
    }
    shard_of_slot_[slot] = found->second;
    ++slots_covered_;
    std::vector<SlotRange>& ranges = shards_[found->second].slots;
    const auto number = static_cast<Slot>(slot);
    if (!ranges.empty() && ranges.back().last + 1 == number) {
      ranges.back().last = number;
    } else {
      ranges.push_back({number, number});
    }
  }
}

bool Topology::same_as(const Topology& other) const {
  return state_ok_ == other.state_ok_ && current_epoch_ == other.current_epoch_ &&
         shards_ == other.shards_ && slotless_ == other.slotless_;
}

}  // namespace penstock::cluster
