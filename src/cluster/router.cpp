// One worker's view of the map.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cluster/router.h"

#include <utility>

#include "penstock/log/check.h"

namespace penstock::cluster {

void Router::apply(std::shared_ptr<const Topology> topology) {
  topology_ = std::move(topology);
  for (Node& node : nodes_) {
    node.taken = node.known;
    node.known = false;
  }
  masters_.clear();
  node_of_slot_.fill(kNoNode);
  for (const Shard& shard : topology_->shards()) {
    const NodeIndex master = index_of(shard.master);
    masters_.push_back(master);
    for (const NodeInfo& replica : shard.replicas) index_of(replica);
    for (const SlotRange& range : shard.slots) {
      for (std::size_t slot = range.first; slot <= range.last; ++slot) node_of_slot_[slot] = master;
    }
  }
  for (const NodeInfo& master : topology_->slotless()) index_of(master);
  ++version_;
}

NodeIndex Router::index_of(const NodeInfo& info) {
  std::size_t free = nodes_.size();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].taken && nodes_[i].endpoint == info.endpoint) {
      nodes_[i].known = true;
      nodes_[i].ip = info.ip;
      return static_cast<NodeIndex>(i);
    }
    if (!nodes_[i].taken && free == nodes_.size()) free = i;
  }
  CHECK(free < kNoNode);
  if (free == nodes_.size()) nodes_.emplace_back();
  nodes_[free] = {info.endpoint, info.ip, true, true};
  return static_cast<NodeIndex>(free);
}

NodeIndex Router::find(const Endpoint& target, const std::string& asked_host) const {
  const std::string& host = target.host.empty() ? asked_host : target.host;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!node.known || node.endpoint.port != target.port) continue;
    if (node.endpoint.host == host || node.ip == host) return static_cast<NodeIndex>(i);
  }
  return kNoNode;
}

void Router::teach(Slot slot, NodeIndex node) {
  if (node_of_slot_[slot] == node) return;
  node_of_slot_[slot] = node;
  ++version_;
}

}  // namespace penstock::cluster
