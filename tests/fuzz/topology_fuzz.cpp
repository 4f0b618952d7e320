// What nodes say about the cluster: any text gives a sound map or none, and never takes one away.
// The first byte says which command the rest answers; NODES and INFO texts come without a header.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cluster/topology.h"

#include <memory>
#include <optional>
#include <string>

#include "exact_buffer.h"
#include "mutate.h"
#include "require.h"
#include "session/redirect_reply.h"

namespace penstock::fuzz {
namespace {

using cluster::Endpoint;
using cluster::Topology;
using cluster::View;

const Endpoint kAsked{"127.0.0.1", 7000};

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

std::optional<View> parse(char command, std::string_view text) {
  const std::string nodes_frame = command == 'n' ? bulk(text) : std::string();
  const ExactBuffer buffer(command == 'n' ? nodes_frame : text);
  switch (command) {
    case 'l': return cluster::parse_cluster_slots(buffer.view(), kAsked);
    case 'h': return cluster::parse_cluster_shards(buffer.view(), kAsked);
    case 'n': return cluster::parse_cluster_nodes(buffer.view(), kAsked);
    default: return std::nullopt;
  }
}

// CLUSTER NODES tells of masters whose address nobody knows; they still own their slots.
void check_view(const View& view, bool may_lack_addresses) {
  for (const cluster::Shard& shard : view.shards) {
    REQUIRE(shard.master.endpoint.port != 0 || may_lack_addresses);
    for (const cluster::SlotRange& range : shard.slots) {
      REQUIRE(range.first <= range.last && range.last < cluster::kSlots);
    }
    for (const cluster::NodeInfo& replica : shard.replicas) REQUIRE(replica.endpoint.port != 0);
  }
}

void check_map(const Topology& map) {
  std::size_t covered = 0;
  for (cluster::Slot slot = 0; slot < cluster::kSlots; ++slot) {
    covered += map.shard_of(slot) == nullptr ? 0 : 1;
  }
  REQUIRE(covered == map.slots_covered());
  std::size_t listed = 0;
  for (const cluster::Shard& shard : map.shards()) {
    REQUIRE(!shard.slots.empty());
    for (const cluster::SlotRange& range : shard.slots) {
      listed += static_cast<std::size_t>(range.last - range.first) + 1;
    }
  }
  REQUIRE(listed == covered);
}

// A map of one master that owns everything, at an epoch that any view may be before or behind.
std::shared_ptr<const Topology> usual_map() {
  View view;
  view.shards.push_back({{"master", {"10.0.0.1", 6379}, ""}, {}, {{0, 16383}}, 7});
  view.current_epoch = 7;
  return Topology::merged(Topology(), view);
}

void check_maps(View view, std::string_view text) {
  cluster::apply_cluster_info(text, view);
  cluster::apply_server_info(text, view);
  if (text.size() % 2 == 0) {  // a map takes its time: one of the two, by the text
    const std::shared_ptr<const Topology> first = Topology::merged(Topology(), view);
    check_map(*first);
    REQUIRE(Topology::merged(*first, view)->same_as(*first));
    return;
  }
  static const std::shared_ptr<const Topology> usual = usual_map();
  const std::shared_ptr<const Topology> next = Topology::merged(*usual, view);
  check_map(*next);
  REQUIRE(view.state_ok || next->slots_covered() == cluster::kSlots);
}

void check_redirect(std::string_view text) {
  const ExactBuffer buffer(text);
  session::refusal_of(buffer.view(), true);
  session::refusal_of(buffer.view(), false);
  const auto redirect = session::parse_redirect(buffer.view());
  if (redirect) REQUIRE(redirect->slot < cluster::kSlots && redirect->target.port != 0);
}

void run(char command, std::string_view text) {
  const std::optional<View> view = parse(command, text);
  if (view) {
    check_view(*view, command == 'n');
    check_maps(*view, text);
  }
  if (command == 'i') {
    View empty;
    cluster::apply_cluster_info(text, empty);
    cluster::apply_server_info(text, empty);
  }
  if (command == 'm') check_redirect(text);
}

std::string random_nodes_line(Random& random) {
  const std::string id(40, static_cast<char>('a' + below(random, 6)));
  const std::string port = std::to_string(7000 + below(random, 6));
  const std::size_t first = below(random, cluster::kSlots);
  const bool is_master = below(random, 2) == 0;
  std::string line = id + " 127.0.0.1:" + port + "@1" + port;
  if (below(random, 3) == 0) line += ",host-" + port;
  line += is_master ? " master - " : " slave " + std::string(40, 'a') + " ";
  line += "0 0 " + std::to_string(below(random, 10)) + " connected";
  if (is_master) line += " " + std::to_string(first) + "-" + std::to_string(first + 9);
  return line + "\n";
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!text.empty()) penstock::fuzz::run(text[0], text.substr(1));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return penstock::fuzz::mutate(data, size, max_size, seed, 1,
                                [=](penstock::fuzz::Random& random) {
                                  return data[0] == 'n'
                                             ? penstock::fuzz::random_nodes_line(random)
                                             : penstock::fuzz::random_reply(random, 1);
                                });
}
