// CLUSTER as the proxy shows itself: one node that owns every slot, at an address clients can dial.
// No address of a real node is ever told.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <span>

#include "admin/handlers.h"
#include "penstock/cluster/hash_slot.h"
#include "penstock/net/address.h"

namespace penstock::admin {
namespace {

// The address a client is told: the announced one, or the one it dialled.
net::HostPort announced(const LocalCall& call, const ServerView& server) {
  const std::string& announce = server.config->server.announce;
  if (!announce.empty()) return *net::parse_host_port(announce);
  const net::Address dialled = net::local_address(call.fd);
  if (dialled.family() == AF_UNIX) return {"127.0.0.1", server.port};
  return net::parse_host_port(net::to_string(dialled)).value_or(net::HostPort{"", server.port});
}

void slots(LocalCall& call, const AdminContext& context) {
  const net::HostPort address = announced(call, context.server);
  call.reply.array(1);
  call.reply.array(3);
  call.reply.integer(0);
  call.reply.integer(cluster::kSlots - 1);
  call.reply.array(4);
  call.reply.bulk(address.host);
  call.reply.integer(address.port);
  call.reply.bulk(context.server.run_id);
  call.reply.map(0);
}

void shards(LocalCall& call, const AdminContext& context) {
  const net::HostPort address = announced(call, context.server);
  resp::ReplyWriter& reply = call.reply;
  reply.array(1);
  reply.map(2);
  reply.bulk("slots");
  reply.array(2);
  reply.integer(0);
  reply.integer(cluster::kSlots - 1);
  reply.bulk("nodes");
  reply.array(1);
  reply.map(7);
  reply.bulk("id");
  reply.bulk(context.server.run_id);
  reply.bulk("port");
  reply.integer(address.port);
  reply.bulk("ip");
  reply.bulk(address.host);
  reply.bulk("endpoint");
  reply.bulk(address.host);
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("replication-offset");
  reply.integer(0);
  reply.bulk("health");
  reply.bulk("online");
}

void nodes(LocalCall& call, const AdminContext& context) {
  const net::HostPort address = announced(call, context.server);
  call.reply.verbatim(fmt::format("{} {}:{}@{} myself,master - 0 0 1 connected 0-{}\n",
                                  context.server.run_id, address.host, address.port,
                                  (address.port + 10000) % 65536, cluster::kSlots - 1));
}

// cluster_state says whether the cluster behind the proxy can be used: a readiness signal.
void info(LocalCall& call, const AdminContext& context) {
  const auto topology = context.server.topology();
  const bool ok = topology->state_ok() && !topology->empty();
  call.reply.verbatim(fmt::format(
      "cluster_enabled:1\r\ncluster_state:{}\r\ncluster_slots_assigned:{}\r\n"
      "cluster_slots_ok:{}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\n"
      "cluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:{}\r\n"
      "cluster_my_epoch:1\r\ncluster_stats_messages_sent:0\r\n"
      "cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n",
      ok ? "ok" : "fail", topology->slots_covered(), topology->slots_covered(),
      topology->current_epoch()));
}

void my_id(LocalCall& call, const AdminContext& context) {
  call.reply.bulk(context.server.run_id);
}

void key_slot(LocalCall& call, const AdminContext&) {
  call.reply.integer(cluster::hash_slot(call.request[2]));
}

// CLUSTER REPLICAS and COUNT-FAILURE-REPORTS take a node's id; there is one.
bool knows_node(LocalCall& call, const AdminContext& context) {
  if (call.request[2] == context.server.run_id) return true;
  call.reply.error(fmt::format("ERR Unknown node {}", resp::shown(call.request[2])));
  return false;
}

void replicas(LocalCall& call, const AdminContext& context) {
  if (knows_node(call, context)) call.reply.array(0);
}

void failure_reports(LocalCall& call, const AdminContext& context) {
  if (knows_node(call, context)) call.reply.integer(0);
}

void links(LocalCall& call, const AdminContext&) { call.reply.array(0); }

void help(LocalCall& call, const AdminContext&) {
  reply_help(call.reply,
             {"CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
              "COUNTKEYSINSLOT <slot>", "    Return the number of keys in <slot>.",
              "GETKEYSINSLOT <slot> <count>", "    Return key names stored in <slot>.",
              "INFO", "    Return information about the cluster as one node.",
              "KEYSLOT <key>", "    Return the hash slot for <key>.",
              "LINKS", "    Return an empty list.",
              "MYID", "    Return the node id of the proxy.",
              "NODES", "    Return the proxy as the one node.",
              "REPLICAS <node-id>", "    Return an empty list.",
              "SLOTS", "    Return the one range of slots.",
              "SHARDS", "    Return the one shard.",
              "HELP", "    Prints this help."});
}

constexpr NamedHandler kHandlers[] = {
    {"cluster|info", info},         {"cluster|myid", my_id},
    {"cluster|myshardid", my_id},   {"cluster|slots", slots},
    {"cluster|shards", shards},     {"cluster|nodes", nodes},
    {"cluster|keyslot", key_slot},  {"cluster|replicas", replicas},
    {"cluster|slaves", replicas},   {"cluster|links", links},
    {"cluster|help", help},         {"cluster|count-failure-reports", failure_reports},
};

}  // namespace

std::span<const NamedHandler> cluster_handlers() { return kHandlers; }

}  // namespace penstock::admin
