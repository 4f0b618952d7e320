// A model of a Redis Cluster: nodes that own slots, redirect, migrate, fail over, load, stall and
// die as real ones do. Knows a handful of commands; their semantics are the real ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/cluster/topology.h"
#include "penstock/net/address.h"
#include "penstock/resp/request.h"
#include "simulation/wire.h"

namespace penstock::simulation {

using cluster::Slot;
using Data = std::map<std::string, std::string>;

class NodeConnection;

struct SimulatedNode {
  std::uint16_t port = 0;
  bool alive = true;
  bool loading = false;
  bool stalled = false;            // accepts bytes and does nothing
  Data data;
  std::vector<NodeConnection*> connections;  // oldest first
};

class SimulatedCluster {
 public:
  SimulatedCluster(World& world, int masters);
  ~SimulatedCluster();

  std::shared_ptr<Wire> dial(const net::Address& address);

  // What the nodes would say of the cluster now.
  cluster::View view() const;

  // Things that happen. Each leaves the cluster in a state from which it goes on.
  void begin_migration(Slot slot);
  void move_a_key();
  void finish_migration();
  void fail_over(std::size_t shard);           // planned: nothing is lost
  void kill_master(std::size_t shard);         // replies on the way are lost; a replica takes over
  void cut_connections(std::size_t shard);
  void stall(std::size_t shard, Nanos duration);
  void go_down(Nanos duration);                // every node answers CLUSTERDOWN
  std::size_t shards() const { return masters_.size(); }

  // How often a write of each kind was executed, for the oracle.
  std::uint64_t executed() const { return executed_; }

 private:
  friend class NodeConnection;

  struct Migration {
    Slot slot;
    std::uint16_t from, to;
  };

  SimulatedNode& node(std::uint16_t port) { return *nodes_.at(port); }
  std::uint16_t add_node();
  std::string execute(SimulatedNode& node, const resp::Request& request, bool asking, bool resp3);
  std::string refuse(SimulatedNode& node, const std::vector<std::string>& keys, bool asking);
  std::string run(SimulatedNode& node, const resp::Request& request, bool resp3);
  void promote(std::size_t shard, std::uint16_t port);
  void disconnect(SimulatedNode& node);

  World& world_;
  std::map<std::uint16_t, std::unique_ptr<SimulatedNode>> nodes_;
  std::vector<std::uint16_t> masters_;          // of each shard
  std::map<Slot, std::size_t> moved_slots_;     // slots that are not where they began
  std::optional<Migration> migration_;
  std::uint64_t epoch_ = 1;
  std::uint16_t next_port_ = 7000;
  bool down_ = false;
  std::uint64_t executed_ = 0;

  std::size_t shard_of(Slot slot) const;
};

}  // namespace penstock::simulation
