// Which worker owns the shared pipes of which node. An immutable snapshot, made anew with every
// map and handed to all workers together with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/cluster/topology.h"

namespace penstock::sharding {

// What the owner tells the other workers of a node's shared pipes. Written by the owner only.
struct alignas(64) NodeSigns {
  std::atomic<bool> full{false};       // some pipe has no room
  std::atomic<bool> troubled{false};   // some pipe does not get its connection
  std::atomic<std::uint8_t> ready{0};  // protocols that have a connection: 1 RESP2, 2 RESP3
};

// A node's place in the plan. The stamp tells it from others that had the place before.
struct SharedNode {
  std::uint16_t place = 0;
  std::uint16_t stamp = 0;

  bool operator==(const SharedNode&) const = default;
};

class OwnerPlan {
 public:
  struct Entry {
    cluster::Endpoint endpoint;
    SharedNode node;
    std::uint16_t owner = 0;             // worker
    std::shared_ptr<NodeSigns> signs{};  // null: the place is free
  };

  // A node that stays keeps its place and its owner, whatever else changes. A new one goes to the
  // worker that owns the fewest, masters being counted among masters.
  static std::shared_ptr<const OwnerPlan> next(const OwnerPlan& before,
                                               const cluster::Topology& topology,
                                               std::size_t workers);

  const std::vector<Entry>& entries() const { return entries_; }
  // Grows by one from plan to plan.
  std::uint32_t version() const { return version_; }
  const Entry* find(const cluster::Endpoint& endpoint) const;

 private:
  Entry& place_for(const cluster::Endpoint& endpoint);

  std::vector<Entry> entries_;  // by place
  std::uint32_t version_ = 0;
};

}  // namespace penstock::sharding
