// Reading and merging what nodes say about the cluster.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cluster/topology.h"

#include <fmt/format.h>

#include <string>

#include "catch.h"
#include "penstock/cluster/router.h"

namespace penstock::cluster {
namespace {

const Endpoint kAsked{"10.0.0.9", 7000};

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

// A view in which each shard has one node, n0 and up, at ports from 7000, with even slots.
View even_view(int shards, std::uint64_t epoch) {
  View view;
  for (int i = 0; i < shards; ++i) {
    const auto first = static_cast<Slot>(kSlots * i / shards);
    const auto last = static_cast<Slot>(kSlots * (i + 1) / shards - 1);
    const std::string id = "n" + std::to_string(i);
    view.shards.push_back({{id, {"h", static_cast<std::uint16_t>(7000 + i)}, ""},
                           {}, {{first, last}}, static_cast<std::uint64_t>(i) + 1});
    view.known_ids.push_back(id);
  }
  view.current_epoch = epoch;
  return view;
}

std::uint16_t owner_port(const Topology& topology, Slot slot) {
  const Shard* shard = topology.shard_of(slot);
  return shard == nullptr ? 0 : shard->master.endpoint.port;
}

}  // namespace

TEST_CASE("CLUSTER SLOTS: endpoints, replicas, several ranges of one master") {
  const std::string id(40, 'a');
  const std::string node = "*4\r\n" + bulk("10.0.0.1") + ":7000\r\n" + bulk(id) + "*0\r\n";
  const std::string replica =
      "*3\r\n" + bulk("10.0.0.2") + ":7001\r\n" + bulk(std::string(40, 'b'));
  const auto view = parse_cluster_slots("*2\r\n*4\r\n:0\r\n:99\r\n" + node + replica +
                                            "*3\r\n:200\r\n:300\r\n" + node, kAsked);
  REQUIRE(view.has_value());
  REQUIRE(view->shards.size() == 1);
  CHECK(view->shards[0].slots == std::vector<SlotRange>{{0, 99}, {200, 300}});
  REQUIRE(view->shards[0].replicas.size() == 1);
  CHECK(to_string(view->shards[0].replicas[0].endpoint) == "10.0.0.2:7001");
}

TEST_CASE("endpoints that are null, empty or unknown are the address that was asked") {
  const std::string meta = "*2\r\n" + bulk("ip") + bulk("10.0.0.7");
  for (const auto& [host, extra, expected] :
       {std::tuple<std::string, std::string, std::string>{"$-1\r\n", "*0\r\n", "10.0.0.9:7001"},
        {bulk(""), "*0\r\n", "10.0.0.9:7001"},
        {bulk("?"), "*0\r\n", "10.0.0.9:7001"},
        {bulk("?"), meta, "10.0.0.7:7001"},
        {bulk("name.example"), meta, "name.example:7001"},
        {bulk("::1"), "*0\r\n", "[::1]:7001"}}) {
    const auto view = parse_cluster_slots(
        "*1\r\n*3\r\n:0\r\n:1\r\n*4\r\n" + host + ":7001\r\n" + bulk("id") + extra, kAsked);
    REQUIRE(view.has_value());
    CHECK(to_string(view->shards[0].master.endpoint) == expected);
  }
}

TEST_CASE("CLUSTER NODES: bus ports, host names, IPv6, moving slots, failed nodes") {
  const std::string text =
      "aa 10.0.0.1:7000@17000,host.example,shard-id=x myself,master - 0 0 5 connected "
      "0-99 200 [300->-bb] [301-<-cc]\n"
      "bb ::1:7001@17001 master - 0 0 6 connected 100-199\n"
      "cc 10.0.0.3:7002@17002 slave aa 0 0 5 connected\n"
      "dd :0@0 master,noaddr - 0 0 0 disconnected\n"
      "ee 10.0.0.5:7004 slave,fail aa 0 0 5 connected\n"
      "ff :7005@17005,,tls-port=0 slave bb 0 0 6 connected\r\n";
  const auto view = parse_cluster_nodes(bulk(text), kAsked);
  REQUIRE(view.has_value());
  REQUIRE(view->shards.size() == 2);
  CHECK(to_string(view->shards[0].master.endpoint) == "10.0.0.1:7000");
  CHECK(view->shards[0].slots == std::vector<SlotRange>{{0, 99}, {200, 200}});
  CHECK(view->shards[0].epoch == 5);
  CHECK(to_string(view->shards[1].master.endpoint) == "[::1]:7001");
  REQUIRE(view->shards[0].replicas.size() == 1);
  CHECK(to_string(view->shards[0].replicas[0].endpoint) == "10.0.0.3:7002");
  REQUIRE(view->shards[1].replicas.size() == 1);
  CHECK(to_string(view->shards[1].replicas[0].endpoint) == "10.0.0.9:7005");
  CHECK(view->known_ids.size() == 6);
}

TEST_CASE("CLUSTER SHARDS: the healthy master of a shard, in RESP2 and RESP3") {
  const auto node = [](const std::string& port, const std::string& role, const std::string& health,
                       const std::string& map) {
    return map + bulk("id") + bulk("id" + port) + bulk("port") + ":" + port + "\r\n" +
           bulk("endpoint") + bulk("10.0.0.1") + bulk("role") + bulk(role) + bulk("health") +
           bulk(health);
  };
  for (const auto& [outer, inner] : {std::pair{"*4\r\n", "*10\r\n"}, {"%2\r\n", "%5\r\n"}}) {
    const auto view = parse_cluster_shards(
        "*1\r\n" + std::string(outer) + bulk("slots") + "*2\r\n:0\r\n:16383\r\n" + bulk("nodes") +
            "*3\r\n" + node("7000", "master", "fail", inner) +
            node("7001", "master", "online", inner) + node("7002", "replica", "online", inner),
        kAsked);
    REQUIRE(view.has_value());
    REQUIRE(view->shards.size() == 1);
    CHECK(view->shards[0].master.endpoint.port == 7001);
    CHECK(view->shards[0].replicas.size() == 1);
  }
}

TEST_CASE("a reply that makes no sense gives nothing") {
  for (const char* text : {"", "-ERR x\r\n", ":1\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n",
                           "*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\na\r\n:7000\r\n",
                           "*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n$1\r\na\r\n:7000\r\n",
                           "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:0\r\n"}) {
    CHECK_FALSE(parse_cluster_slots(text, kAsked).has_value());
  }
  CHECK_FALSE(parse_cluster_nodes(bulk("garbage\n"), kAsked).has_value());
  CHECK_FALSE(parse_cluster_nodes(bulk("a b:1@2 master - 0 0 x c 0-1\n"), kAsked).has_value());
}

TEST_CASE("CLUSTER INFO tells state and epoch") {
  View view;
  apply_cluster_info(
      "$99\r\ncluster_enabled:1\r\ncluster_state:fail\r\ncluster_current_epoch:8\r\n", view);
  CHECK_FALSE(view.state_ok);
  CHECK(view.current_epoch == 8);
}

TEST_CASE("a fresh view replaces the map, holes and all") {
  const auto first = Topology::merged(Topology(), even_view(3, 5));
  CHECK(first->slots_covered() == kSlots);
  View next = even_view(3, 6);
  next.shards[1].slots = {{5461, 6000}};
  const auto second = Topology::merged(*first, next);
  CHECK(owner_port(*second, 6000) == 7001);
  CHECK(second->shard_of(6001) == nullptr);
  CHECK(second->version() == first->version() + 1);
}

TEST_CASE("F-04: a node behind the majority cannot roll the map back") {
  View after_failover = even_view(3, 9);
  after_failover.shards[0].master = {"n9", {"h", 7009}, ""};
  after_failover.shards[0].epoch = 9;
  after_failover.known_ids.push_back("n9");
  const auto map = Topology::merged(*Topology::merged(Topology(), even_view(3, 5)), after_failover);
  REQUIRE(owner_port(*map, 0) == 7009);
  SECTION("it has an older epoch") {
    const auto merged = Topology::merged(*map, even_view(3, 5));
    CHECK(owner_port(*merged, 0) == 7009);
    CHECK(merged->current_epoch() == 9);
  }
  SECTION("it says that the cluster failed") {
    View cut_off = even_view(3, 9);
    cut_off.state_ok = false;
    const auto merged = Topology::merged(*map, cut_off);
    CHECK(owner_port(*merged, 0) == 7009);
    CHECK(merged->state_ok());
  }
  SECTION("but what it knows better is taken") {
    View newer = even_view(3, 5);
    newer.state_ok = false;
    newer.shards[1].master.endpoint.port = 7777;
    newer.shards[1].epoch = 11;
    CHECK(owner_port(*Topology::merged(*map, newer), 8000) == 7777);
  }
}

TEST_CASE("a view that may not change the map does not change the state either") {
  const auto before = Topology::merged(Topology(), even_view(3, 9));
  View minority = even_view(3, 8);
  minority.state_ok = false;
  CHECK(Topology::merged(*before, minority)->same_as(*before));
  CHECK_FALSE(Topology::down(*before)->state_ok());
  CHECK(Topology::merged(*Topology::down(*before), even_view(3, 9))->same_as(*before));
}

TEST_CASE("a master that owns no slots yet is known: ASK may name it") {
  const std::string id(40, 'c');
  const auto nodes = parse_cluster_nodes(
      bulk(id + " 10.0.0.3:7003@17003 master - 0 0 0 connected\n"), kAsked);
  REQUIRE(nodes.has_value());
  REQUIRE(nodes->slotless.size() == 1);
  View view = even_view(3, 1);
  apply_nodes(*nodes, view);
  Router router;
  router.apply(Topology::merged(Topology(), view));
  const NodeIndex node = router.find({"10.0.0.3", 7003}, "h");
  REQUIRE(node != kNoNode);
  CHECK(router.masters().size() == 3);
}

TEST_CASE("a cluster that was set up anew is believed although its epochs are small") {
  const auto map = Topology::merged(Topology(), even_view(3, 50));
  View anew = even_view(2, 2);
  anew.known_ids = {"x0", "x1"};
  anew.shards[0].master.id = "x0";
  anew.shards[1].master.id = "x1";
  anew.shards[0].master.endpoint.port = 8000;
  CHECK(owner_port(*Topology::merged(*map, anew), 0) == 8000);
}

TEST_CASE("a node that lost everything takes nothing away") {
  const auto map = Topology::merged(Topology(), even_view(3, 5));
  View empty;
  empty.state_ok = false;
  CHECK(Topology::merged(*map, empty)->slots_covered() == kSlots);
}

TEST_CASE("the router follows the map, and redirects at once") {
  Router router;
  CHECK(router.node_of(0) == kNoNode);
  router.apply(Topology::merged(Topology(), even_view(3, 5)));
  const NodeIndex a = router.node_of(0), b = router.node_of(8000);
  CHECK(a != b);
  CHECK(router.masters().size() == 3);
  const std::uint32_t version = router.version();
  CHECK(router.find({"h", 7001}, "h") == b);
  CHECK(router.find({"", 7001}, "h") == b);
  CHECK(router.find({"h", 9999}, "h") == kNoNode);
  router.teach(0, b);
  CHECK(router.node_of(0) == b);
  CHECK(router.version() != version);
}

TEST_CASE("a node keeps its index while it is known, and gives it back afterwards") {
  Router router;
  const auto first = Topology::merged(Topology(), even_view(3, 5));
  router.apply(first);
  const NodeIndex b = router.node_of(8000);
  View two = even_view(3, 6);
  two.shards[1].master.endpoint.port = 7050;
  const auto second = Topology::merged(*first, two);
  router.apply(second);
  CHECK_FALSE(router.is_known(b));
  const NodeIndex fresh = router.node_of(8000);
  CHECK(fresh != b);
  View three = even_view(3, 7);
  three.shards[1].master.endpoint.port = 7060;
  router.apply(Topology::merged(*second, three));
  CHECK(router.node_of(8000) == b);
}

}  // namespace penstock::cluster
