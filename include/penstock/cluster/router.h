// One worker's view of the map: slot -> node, as one flat array, corrected at once by redirects.
// Belongs to one worker. Node indexes are small, stable while a node is known, and reused later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "penstock/cluster/topology.h"

namespace penstock::cluster {

using NodeIndex = std::uint16_t;
inline constexpr NodeIndex kNoNode = 0xffff;
using SlotOwners = std::array<NodeIndex, kSlots>;

class Router {
 public:
  Router() { node_of_slot_.fill(kNoNode); }

  // Takes over a snapshot. Slots that redirects taught since are set as the snapshot says.
  void apply(std::shared_ptr<const Topology> topology);

  const SlotOwners& owners() const { return node_of_slot_; }
  NodeIndex node_of(Slot slot) const { return node_of_slot_[slot]; }

  // A redirect named `target`; an empty host means `asked_host`, the host that said so. The node,
  // or kNoNode when the map does not know it: only the map may name addresses to dial.
  NodeIndex find(const Endpoint& target, const std::string& asked_host) const;
  void teach(Slot slot, NodeIndex node);

  // Changes with every change of node_of(), so that a session can tell that routes changed.
  std::uint32_t version() const { return version_; }

  const Endpoint& endpoint(NodeIndex node) const { return nodes_[node].endpoint; }
  std::span<const NodeIndex> masters() const { return masters_; }
  std::size_t nodes() const { return nodes_.size(); }
  // Whether the map still names the node. The index of one that left is free from the next map on.
  bool is_known(NodeIndex node) const { return nodes_[node].known; }

  const Topology& topology() const { return *topology_; }

 private:
  struct Node {
    Endpoint endpoint;
    std::string ip;
    bool known = false;  // true exactly when the snapshot names it
    bool taken = false;  // true while the index may not be given to another node
  };

  NodeIndex index_of(const NodeInfo& info);

  SlotOwners node_of_slot_;
  std::vector<Node> nodes_;
  std::vector<NodeIndex> masters_;
  std::shared_ptr<const Topology> topology_ = std::make_shared<Topology>();
  std::uint32_t version_ = 0;
};

}  // namespace penstock::cluster
