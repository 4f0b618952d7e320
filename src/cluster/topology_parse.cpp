// Reads CLUSTER SLOTS, SHARDS, NODES and INFO replies. A reply that makes no sense gives nothing.
// Formats: redis.io/commands/cluster-slots, -shards, -nodes, -info.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <map>

#include "penstock/cluster/topology.h"
#include "penstock/resp/reply_value.h"

namespace penstock::cluster {
namespace {

using resp::ReplyValue;

bool valid_slots(std::int64_t first, std::int64_t last) {
  return first >= 0 && first <= last && last < kSlots;
}

bool valid_port(std::int64_t port) { return port > 0 && port <= 65535; }

template <typename T>
bool parse_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

// The parts of a text between separators.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool is_unknown(std::string_view host) { return host.empty() || host == "?"; }

// "": the node asked does not know its own address. "?": it has no name and no address is to be
// told. A null: clients are to use the address they asked at.
Endpoint endpoint_of(std::string_view preferred, std::string_view ip, std::int64_t port,
                     const Endpoint& asked) {
  const std::string_view host =
      !is_unknown(preferred) ? preferred : !is_unknown(ip) ? ip : std::string_view(asked.host);
  return {std::string(host), static_cast<std::uint16_t>(port)};
}

// One node of a CLUSTER SLOTS entry: endpoint, port, id, and pairs such as "ip", "...".
std::optional<NodeInfo> slots_node(const ReplyValue& value, const Endpoint& asked) {
  const auto& fields = value.elements;
  if (fields.size() < 2 || !valid_port(fields[1].integer)) return std::nullopt;
  NodeInfo node;
  if (fields.size() > 2) node.id = fields[2].text;
  if (fields.size() > 3) {
    const ReplyValue* ip = fields[3].find("ip");
    if (ip != nullptr) node.ip = ip->text;
  }
  node.endpoint = endpoint_of(fields[0].text, node.ip, fields[1].integer, asked);
  return node;
}

std::optional<NodeInfo> shards_node(const ReplyValue& value, const Endpoint& asked) {
  const ReplyValue* port = value.find("port");
  if (port == nullptr) port = value.find("tls-port");
  const ReplyValue* endpoint = value.find("endpoint");
  const ReplyValue* ip = value.find("ip");
  const ReplyValue* id = value.find("id");
  if (port == nullptr || !valid_port(port->integer)) return std::nullopt;
  NodeInfo node;
  if (id != nullptr) node.id = id->text;
  if (ip != nullptr) node.ip = ip->text;
  node.endpoint =
      endpoint_of(endpoint == nullptr ? "" : endpoint->text, node.ip, port->integer, asked);
  return node;
}

// The shard of the same master, new if there is none yet.
Shard& shard_of_master(std::vector<Shard>& shards, const NodeInfo& master) {
  for (Shard& shard : shards) {
    if (shard.master.id == master.id && shard.master.endpoint == master.endpoint) return shard;
  }
  shards.push_back({master, {}, {}, 0});
  return shards.back();
}

// One line of CLUSTER NODES.
struct NodesLine {
  NodeInfo node;
  std::string master_id;  // empty for a master
  std::uint64_t epoch = 0;
  std::vector<SlotRange> slots;
  bool usable = true;  // false: not to be sent anything (no address yet, failed, in handshake)
};

// "ip:port@busport,hostname,key=value...": the port after the last colon, IPv6 without brackets.
bool parse_address(std::string_view field, const Endpoint& asked, NodeInfo& node) {
  const std::vector<std::string_view> parts = split(field, ',');
  const std::string_view address = parts[0].substr(0, parts[0].find('@'));
  const std::size_t colon = address.rfind(':');
  std::uint16_t port = 0;
  if (colon == std::string_view::npos || !parse_number(address.substr(colon + 1), port)) {
    return false;
  }
  node.ip = address.substr(0, colon);
  const bool named = parts.size() > 1 && parts[1].find('=') == std::string_view::npos;
  node.endpoint = endpoint_of(node.ip, named ? parts[1] : "", port, asked);
  return port != 0;
}

// "0-5460" or "77"; "[93-<-id]" and "[77->-id]" tell of moves and own nothing.
bool parse_slots(std::string_view field, std::vector<SlotRange>& slots) {
  if (field.starts_with('[')) return true;
  const std::size_t dash = field.find('-');
  std::int64_t first = 0, last = 0;
  if (!parse_number(field.substr(0, dash), first)) return false;
  last = first;
  if (dash != std::string_view::npos && !parse_number(field.substr(dash + 1), last)) return false;
  if (!valid_slots(first, last)) return false;
  slots.push_back({static_cast<Slot>(first), static_cast<Slot>(last)});
  return true;
}

std::optional<NodesLine> parse_nodes_line(std::string_view text, const Endpoint& asked) {
  const std::vector<std::string_view> fields = split(text, ' ');
  if (fields.size() < 8) return std::nullopt;
  NodesLine line;
  line.node.id = fields[0];
  line.usable = parse_address(fields[1], asked, line.node);
  for (const std::string_view flag : split(fields[2], ',')) {
    if (flag == "fail" || flag == "noaddr" || flag == "handshake") line.usable = false;
  }
  if (fields[3] != "-") line.master_id = fields[3];
  if (!parse_number(fields[6], line.epoch)) return std::nullopt;
  for (std::size_t i = 8; i < fields.size(); ++i) {
    if (!parse_slots(fields[i], line.slots)) return std::nullopt;
  }
  return line;
}

std::optional<ReplyValue> parse_sequence(std::string_view reply) {
  std::optional<ReplyValue> value = resp::parse_reply(reply);
  if (!value || !value->is_sequence()) return std::nullopt;
  return value;
}

// The value of a "name:value" line in an INFO-like reply; empty when there is none.
std::string_view info_field(std::string_view reply, std::string_view name) {
  const std::size_t at = reply.find("\n" + std::string(name));
  if (at == std::string_view::npos) return {};
  reply.remove_prefix(at + 1 + name.size());
  return reply.substr(0, reply.find_first_of("\r\n"));
}

}  // namespace

std::optional<View> parse_cluster_slots(std::string_view reply, const Endpoint& asked) {
  const std::optional<ReplyValue> value = parse_sequence(reply);
  if (!value) return std::nullopt;
  View view;
  for (const ReplyValue& entry : value->elements) {
    const auto& fields = entry.elements;
    if (fields.size() < 3 || !valid_slots(fields[0].integer, fields[1].integer)) {
      return std::nullopt;
    }
    const std::optional<NodeInfo> master = slots_node(fields[2], asked);
    if (!master) return std::nullopt;
    Shard& shard = shard_of_master(view.shards, *master);
    shard.slots.push_back(
        {static_cast<Slot>(fields[0].integer), static_cast<Slot>(fields[1].integer)});
    if (!shard.replicas.empty()) continue;
    for (std::size_t i = 3; i < fields.size(); ++i) {
      if (auto replica = slots_node(fields[i], asked)) shard.replicas.push_back(*replica);
    }
  }
  return view;
}

std::optional<View> parse_cluster_shards(std::string_view reply, const Endpoint& asked) {
  const std::optional<ReplyValue> value = parse_sequence(reply);
  if (!value) return std::nullopt;
  View view;
  for (const ReplyValue& entry : value->elements) {
    const ReplyValue* slots = entry.find("slots");
    const ReplyValue* nodes = entry.find("nodes");
    if (slots == nullptr || nodes == nullptr || slots->elements.size() % 2 != 0) {
      return std::nullopt;
    }
    Shard shard;
    for (std::size_t i = 0; i < slots->elements.size(); i += 2) {
      const std::int64_t first = slots->elements[i].integer;
      const std::int64_t last = slots->elements[i + 1].integer;
      if (!valid_slots(first, last)) return std::nullopt;
      shard.slots.push_back({static_cast<Slot>(first), static_cast<Slot>(last)});
    }
    bool has_master = false;
    for (const ReplyValue& each : nodes->elements) {
      const std::optional<NodeInfo> node = shards_node(each, asked);
      const ReplyValue* role = each.find("role");
      const ReplyValue* health = each.find("health");
      if (!node || role == nullptr) continue;
      const bool failed = health != nullptr && health->text == "fail";
      if (role->text == "master" && (!has_master || !failed)) {
        shard.master = *node;
        has_master = true;
      } else if (role->text != "master" && !failed) {
        shard.replicas.push_back(*node);
      }
    }
    if (!has_master) continue;
    if (shard.slots.empty()) {
      view.slotless.push_back(std::move(shard.master));
    } else {
      view.shards.push_back(std::move(shard));
    }
  }
  return view;
}

std::optional<View> parse_cluster_nodes(std::string_view reply, const Endpoint& asked) {
  const std::optional<ReplyValue> value = resp::parse_reply(reply);
  if (!value || !value->is_text()) return std::nullopt;
  View view;
  std::vector<NodesLine> replicas;
  for (std::string_view text : split(value->text, '\n')) {
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) continue;
    std::optional<NodesLine> line = parse_nodes_line(text, asked);
    if (!line) return std::nullopt;
    view.known_ids.push_back(line->node.id);
    if (!line->master_id.empty()) {
      if (line->usable) replicas.push_back(std::move(*line));
    } else if (!line->slots.empty()) {
      view.shards.push_back({line->node, {}, line->slots, line->epoch});
    } else if (line->usable) {
      view.slotless.push_back(line->node);
    }
  }
  for (NodesLine& line : replicas) {
    for (Shard& shard : view.shards) {
      if (shard.master.id == line.master_id) shard.replicas.push_back(line.node);
    }
  }
  return view;
}

void apply_cluster_info(std::string_view reply, View& view) {
  const std::string_view state = info_field(reply, "cluster_state:");
  if (!state.empty()) view.state_ok = state == "ok";
  parse_number(info_field(reply, "cluster_current_epoch:"), view.current_epoch);
}

void apply_server_info(std::string_view reply, View& view) {
  view.server_version = info_field(reply, "redis_version:");
}

void apply_nodes(const View& nodes, View& view) {
  view.known_ids = nodes.known_ids;
  if (view.slotless.empty()) view.slotless = nodes.slotless;
  std::map<std::string_view, std::uint64_t> epochs;
  for (const Shard& shard : nodes.shards) epochs[shard.master.id] = shard.epoch;
  for (Shard& shard : view.shards) {
    const auto found = epochs.find(shard.master.id);
    if (found != epochs.end()) shard.epoch = found->second;
  }
}

}  // namespace penstock::cluster
