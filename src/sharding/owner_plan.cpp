// Dividing nodes among workers.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/sharding/owner_plan.h"

#include <algorithm>

namespace penstock::sharding {

std::shared_ptr<const OwnerPlan> OwnerPlan::next(const OwnerPlan& before,
                                                 const cluster::Topology& topology,
                                                 std::size_t workers) {
  std::vector<const cluster::Endpoint*> masters, others;
  for (const cluster::Shard& shard : topology.shards()) {
    masters.push_back(&shard.master.endpoint);
    for (const cluster::NodeInfo& replica : shard.replicas) others.push_back(&replica.endpoint);
  }
  for (const cluster::NodeInfo& node : topology.slotless()) others.push_back(&node.endpoint);

  auto plan = std::make_shared<OwnerPlan>(before);
  ++plan->version_;
  for (Entry& entry : plan->entries_) {
    const auto is_it = [&](const cluster::Endpoint* each) { return *each == entry.endpoint; };
    if (std::none_of(masters.begin(), masters.end(), is_it) &&
        std::none_of(others.begin(), others.end(), is_it)) {
      entry.signs.reset();
    }
  }
  for (const auto* kind : {&masters, &others}) {
    std::vector<std::size_t> load(workers, 0);
    for (const cluster::Endpoint* endpoint : *kind) {
      if (const Entry* entry = plan->find(*endpoint)) ++load[entry->owner];
    }
    for (const cluster::Endpoint* endpoint : *kind) {
      if (plan->find(*endpoint) != nullptr) continue;
      Entry& entry = plan->place_for(*endpoint);
      const auto least = std::min_element(load.begin(), load.end());
      ++*least;
      entry.owner = static_cast<std::uint16_t>(least - load.begin());
    }
  }
  return plan;
}

OwnerPlan::Entry& OwnerPlan::place_for(const cluster::Endpoint& endpoint) {
  const auto is_free = [](const Entry& entry) { return entry.signs == nullptr; };
  auto entry = std::find_if(entries_.begin(), entries_.end(), is_free);
  if (entry == entries_.end()) {
    entries_.push_back({.endpoint = {}, .node = {static_cast<std::uint16_t>(entries_.size()), 0}});
    entry = entries_.end() - 1;
  }
  entry->endpoint = endpoint;
  ++entry->node.stamp;
  entry->signs = std::make_shared<NodeSigns>();
  return *entry;
}

const OwnerPlan::Entry* OwnerPlan::find(const cluster::Endpoint& endpoint) const {
  for (const Entry& entry : entries_) {
    if (entry.signs != nullptr && entry.endpoint == endpoint) return &entry;
  }
  return nullptr;
}

}  // namespace penstock::sharding
