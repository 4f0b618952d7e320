// A model of a Redis Cluster.
// SPDX-License-Identifier: Apache-2.0
#include "simulation/simulated_cluster.h"

#include <netinet/in.h>

#include <algorithm>

#include "penstock/command/key_finder.h"
#include "penstock/resp/request_scanner.h"

namespace penstock::simulation {

using command::equals_ignoring_case;

// The node's end of one connection from the proxy.
class NodeConnection final : public Peer {
 public:
  NodeConnection(SimulatedCluster& cluster, SimulatedNode& node) : cluster_(cluster), node_(node) {
    node.connections.push_back(this);
  }

  std::shared_ptr<Wire> wire;

  void on_bytes(std::string_view bytes) override {
    input_ += bytes;
    process();
  }
  void on_cut() override { leave(); }

  void process() {
    resp::RequestScanner scanner;
    while (!node_.stalled && scanner.scan(input_, {}) == resp::ScanStatus::complete) {
      const resp::Request request = scanner.request(input_);
      wire->send_to_proxy(answer(request));
      input_.erase(0, scanner.frame_size());
      scanner.reset();
    }
  }
  // The process died, or the connection was killed.
  void break_off() {
    wire->cut_by_peer(ECONNRESET);
    leave();
  }

 private:
  std::string answer(const resp::Request& request) {
    const bool asking = std::exchange(asking_, false);
    if (equals_ignoring_case(request[0], "hello")) {
      resp3_ = true;
      return "%1\r\n+proto\r\n:3\r\n";
    }
    if (equals_ignoring_case(request[0], "client")) return "+OK\r\n";
    if (equals_ignoring_case(request[0], "asking")) {
      asking_ = true;
      return "+OK\r\n";
    }
    return cluster_.execute(node_, request, asking, resp3_);
  }
  void leave() {
    std::erase(node_.connections, this);
    delete this;
  }

  SimulatedCluster& cluster_;
  SimulatedNode& node_;
  std::string input_;
  bool asking_ = false;
  bool resp3_ = false;
};

SimulatedCluster::SimulatedCluster(World& world, int masters) : world_(world) {
  for (int i = 0; i < masters; ++i) masters_.push_back(add_node());
}

SimulatedCluster::~SimulatedCluster() {
  for (auto& [port, each] : nodes_) {
    for (NodeConnection* connection : std::vector(each->connections)) {
      connection->wire->forget_peer();
      delete connection;
    }
  }
}

std::uint16_t SimulatedCluster::add_node() {
  const std::uint16_t port = next_port_++;
  nodes_[port] = std::make_unique<SimulatedNode>();
  nodes_[port]->port = port;
  return port;
}

std::shared_ptr<Wire> SimulatedCluster::dial(const net::Address& address) {
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  const auto found = nodes_.find(ntohs(v4->sin_port));
  if (found == nodes_.end() || !found->second->alive) return nullptr;
  auto* connection = new NodeConnection(*this, *found->second);
  connection->wire = std::make_shared<Wire>(world_, *connection);
  return connection->wire;
}

std::size_t SimulatedCluster::shard_of(Slot slot) const {
  const auto moved = moved_slots_.find(slot);
  return moved != moved_slots_.end() ? moved->second
                                     : slot * masters_.size() / cluster::kSlots;
}

cluster::View SimulatedCluster::view() const {
  cluster::View view;
  view.current_epoch = epoch_;
  view.state_ok = !down_;
  for (const std::uint16_t port : masters_) {
    const std::string id = "node" + std::to_string(port);
    view.shards.push_back({{id, {"10.0.0.1", port}, ""}, {}, {}, epoch_});
    view.known_ids.push_back(id);
  }
  for (std::size_t slot = 0; slot < cluster::kSlots; ++slot) {
    auto& ranges = view.shards[shard_of(static_cast<Slot>(slot))].slots;
    if (!ranges.empty() && ranges.back().last + 1U == slot) {
      ++ranges.back().last;
    } else {
      ranges.push_back({static_cast<Slot>(slot), static_cast<Slot>(slot)});
    }
  }
  return view;
}

std::string SimulatedCluster::execute(SimulatedNode& on, const resp::Request& request, bool asking,
                                      bool resp3) {
  std::vector<std::string> keys;
  const std::size_t step = equals_ignoring_case(request[0], "mset") ? 2 : 1;
  const bool many = step == 2 || equals_ignoring_case(request[0], "mget") ||
                    equals_ignoring_case(request[0], "del") ||
                    equals_ignoring_case(request[0], "exists");
  for (std::size_t i = 1; i < request.size(); i += step) {
    keys.emplace_back(request[i]);
    if (!many) break;
  }
  if (on.loading) return "-LOADING Redis is loading the dataset in memory\r\n";
  std::string refusal = refuse(on, keys, asking);
  if (!refusal.empty()) return refusal;
  ++executed_;
  return run(on, request, resp3);
}

// The rules of cluster.c's getNodeByQuery.
std::string SimulatedCluster::refuse(SimulatedNode& on, const std::vector<std::string>& keys,
                                     bool asking) {
  if (down_) return "-CLUSTERDOWN The cluster is down\r\n";
  const Slot slot = cluster::hash_slot(keys[0]);
  for (const std::string& key : keys) {
    if (cluster::hash_slot(key) != slot) {
      return "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    }
  }
  const auto there = static_cast<std::size_t>(std::count_if(
      keys.begin(), keys.end(), [&](const std::string& key) { return on.data.contains(key); }));
  const std::uint16_t owner = masters_[shard_of(slot)];
  const std::string at = std::to_string(slot) + " 10.0.0.1:";
  const bool moving = migration_ && migration_->slot == slot;
  const std::string kTryAgain = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
  if (moving && migration_->to == on.port && asking) {
    return keys.size() > 1 && there < keys.size() ? kTryAgain : "";
  }
  if (owner != on.port) return "-MOVED " + at + std::to_string(owner) + "\r\n";
  if (moving && migration_->from == on.port && there < keys.size()) {
    if (there > 0) return kTryAgain;
    return "-ASK " + at + std::to_string(migration_->to) + "\r\n";
  }
  return "";
}

std::string SimulatedCluster::run(SimulatedNode& on, const resp::Request& request, bool resp3) {
  const auto bulk = [&](const std::string& key) {
    const auto found = on.data.find(key);
    if (found == on.data.end()) return std::string(resp3 ? "_\r\n" : "$-1\r\n");
    return "$" + std::to_string(found->second.size()) + "\r\n" + found->second + "\r\n";
  };
  const std::string key(request[1]);
  if (equals_ignoring_case(request[0], "get")) return bulk(key);
  if (equals_ignoring_case(request[0], "set")) {
    on.data[key] = request[2];
    return "+OK\r\n";
  }
  if (equals_ignoring_case(request[0], "incr")) {
    std::string& value = on.data[key];
    value = std::to_string((value.empty() ? 0 : std::stol(value)) + 1);
    return ":" + value + "\r\n";
  }
  if (equals_ignoring_case(request[0], "mset")) {
    for (std::size_t i = 1; i + 1 < request.size(); i += 2) {
      on.data[std::string(request[i])] = request[i + 1];
    }
    return "+OK\r\n";
  }
  if (equals_ignoring_case(request[0], "mget")) {
    std::string out = "*" + std::to_string(request.size() - 1) + "\r\n";
    for (std::size_t i = 1; i < request.size(); ++i) out += bulk(std::string(request[i]));
    return out;
  }
  const bool deletes = equals_ignoring_case(request[0], "del");
  std::size_t count = 0;
  for (std::size_t i = 1; i < request.size(); ++i) {
    const std::string each(request[i]);
    count += deletes ? on.data.erase(each) : on.data.count(each);
  }
  return ":" + std::to_string(count) + "\r\n";
}

void SimulatedCluster::begin_migration(Slot slot) {
  if (migration_) return;
  const std::size_t from = shard_of(slot);
  const std::size_t to = (from + 1) % masters_.size();
  migration_ = Migration{slot, masters_[from], masters_[to]};
}

void SimulatedCluster::move_a_key() {
  if (!migration_) return;
  SimulatedNode& from = node(migration_->from);
  for (auto& [key, value] : from.data) {
    if (cluster::hash_slot(key) != migration_->slot) continue;
    node(migration_->to).data[key] = value;
    from.data.erase(key);
    return;
  }
}

void SimulatedCluster::finish_migration() {
  if (!migration_) return;
  SimulatedNode& from = node(migration_->from);
  SimulatedNode& to = node(migration_->to);
  for (auto each = from.data.begin(); each != from.data.end();) {
    if (cluster::hash_slot(each->first) != migration_->slot) {
      ++each;
      continue;
    }
    to.data[each->first] = each->second;
    each = from.data.erase(each);
  }
  const auto shard = std::find(masters_.begin(), masters_.end(), migration_->to);
  moved_slots_[migration_->slot] = static_cast<std::size_t>(shard - masters_.begin());
  ++epoch_;
  migration_.reset();
}

// A new node with the old master's data becomes the shard's master.
void SimulatedCluster::promote(std::size_t shard, std::uint16_t port) {
  if (migration_) finish_migration();
  node(port).data = node(masters_[shard]).data;
  masters_[shard] = port;
  ++epoch_;
}

void SimulatedCluster::fail_over(std::size_t shard) {
  if (node(masters_[shard]).stalled) return;
  promote(shard, add_node());
}

void SimulatedCluster::kill_master(std::size_t shard) {
  SimulatedNode& old = node(masters_[shard]);
  if (!old.alive) return;
  if (migration_) finish_migration();
  old.alive = false;
  old.stalled = false;
  disconnect(old);
  world_.after(world_.pick(100, 1500) * kMillisecond, [this, shard] {
    const std::uint16_t replica = add_node();
    promote(shard, replica);
    if (!world_.chance(30)) return;
    node(replica).loading = true;
    world_.after(world_.pick(10, 300) * kMillisecond,
                 [this, replica] { node(replica).loading = false; });
  });
}

void SimulatedCluster::disconnect(SimulatedNode& from) {
  for (NodeConnection* connection : std::vector(from.connections)) connection->break_off();
}

void SimulatedCluster::cut_connections(std::size_t shard) { disconnect(node(masters_[shard])); }

void SimulatedCluster::stall(std::size_t shard, Nanos duration) {
  SimulatedNode& which = node(masters_[shard]);
  if (!which.alive || which.stalled) return;
  which.stalled = true;
  world_.after(duration, [this, port = which.port] {
    SimulatedNode& again = node(port);
    again.stalled = false;
    for (NodeConnection* connection : std::vector(again.connections)) connection->process();
  });
}

void SimulatedCluster::go_down(Nanos duration) {
  if (down_) return;
  down_ = true;
  world_.after(duration, [this] { down_ = false; });
}

}  // namespace penstock::simulation
