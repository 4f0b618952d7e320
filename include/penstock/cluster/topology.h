// The cluster's map: which shard owns which slot, and where its nodes are. An immutable snapshot.
// Made by the refresher's thread, read by every worker through a shared pointer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/cluster/hash_slot.h"

namespace penstock::cluster {

// Where a node is: what clients of the cluster are to dial, a name or a number.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
};
// "host:port"; an IPv6 host in brackets.
std::string to_string(const Endpoint& endpoint);

struct NodeInfo {
  std::string id;  // the node's 40 hex digits
  Endpoint endpoint;
  std::string ip;  // when the endpoint is a name: its address as the cluster knows it, or empty

  bool operator==(const NodeInfo&) const = default;
};

struct SlotRange {
  Slot first, last;

  bool operator==(const SlotRange&) const = default;
};

struct Shard {
  NodeInfo master;
  std::vector<NodeInfo> replicas;
  std::vector<SlotRange> slots;
  std::uint64_t epoch = 0;  // the master's config epoch; 0 when it was not told

  bool operator==(const Shard&) const = default;
};

// What one node said about the cluster.
struct View {
  std::vector<Shard> shards;
  std::vector<NodeInfo> slotless;      // masters that own nothing yet; ASK may name them
  std::vector<std::string> known_ids;  // of every node it knows; empty when it was not told
  std::uint64_t current_epoch = 0;
  bool state_ok = true;  // cluster_state
  std::string server_version;  // redis_version of the node; empty when it was not told
};

// `asked` stands in for endpoints that the cluster leaves empty, null or "?".
std::optional<View> parse_cluster_slots(std::string_view reply, const Endpoint& asked);
std::optional<View> parse_cluster_shards(std::string_view reply, const Endpoint& asked);
std::optional<View> parse_cluster_nodes(std::string_view reply, const Endpoint& asked);
// cluster_state and cluster_current_epoch of a CLUSTER INFO reply, into the view.
void apply_cluster_info(std::string_view reply, View& view);
// redis_version of an INFO reply, into the view.
void apply_server_info(std::string_view reply, View& view);
// Config epochs, known ids and masters without slots of a CLUSTER NODES view, into another one.
void apply_nodes(const View& nodes, View& view);

class Topology {
 public:
  static constexpr std::uint16_t kNoShard = 0xffff;

  Topology() { shard_of_slot_.fill(kNoShard); }

  // The map after hearing `view`: a fresh view replaces the map; a stale one, or one from a node
  // that cannot see the majority, only adds what is provably newer.
  static std::shared_ptr<const Topology> merged(const Topology& before, const View& view);
  // The same map of a cluster that cannot be used now.
  static std::shared_ptr<const Topology> down(const Topology& before);

  const std::vector<Shard>& shards() const { return shards_; }
  const std::vector<NodeInfo>& slotless() const { return slotless_; }
  // The owner of a slot, or null.
  const Shard* shard_of(Slot slot) const {
    const std::uint16_t index = shard_of_slot_[slot];
    return index == kNoShard ? nullptr : &shards_[index];
  }
  std::uint64_t version() const { return version_; }  // one more with every change
  std::uint64_t current_epoch() const { return current_epoch_; }
  bool state_ok() const { return state_ok_; }
  std::size_t slots_covered() const { return slots_covered_; }
  bool empty() const { return shards_.empty(); }
  const std::string& server_version() const { return server_version_; }

  bool same_as(const Topology& other) const;

 private:
  void assign(const std::array<const Shard*, kSlots>& owners);

  std::vector<Shard> shards_;
  std::vector<NodeInfo> slotless_;
  std::array<std::uint16_t, kSlots> shard_of_slot_;
  std::uint64_t version_ = 0;
  std::uint64_t current_epoch_ = 0;
  std::size_t slots_covered_ = 0;
  bool state_ok_ = false;
  std::string server_version_;
};

}  // namespace penstock::cluster
