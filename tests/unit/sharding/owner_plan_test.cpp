// Which worker owns which node's shared pipes.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/sharding/owner_plan.h"

#include <algorithm>
#include <vector>

#include "catch.h"

namespace penstock::sharding {
namespace {

// Masters on these ports share the slots; each has a replica a thousand ports higher.
std::shared_ptr<const cluster::Topology> topology_of(const std::vector<std::uint16_t>& ports,
                                                     std::uint64_t epoch) {
  cluster::View view;
  view.current_epoch = epoch;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto first = static_cast<cluster::Slot>(cluster::kSlots * i / ports.size());
    const auto last = static_cast<cluster::Slot>(cluster::kSlots * (i + 1) / ports.size() - 1);
    const auto replica = static_cast<std::uint16_t>(ports[i] + 1000);
    view.shards.push_back({{"m" + std::to_string(ports[i]), {"h", ports[i]}, ""},
                           {{"r" + std::to_string(ports[i]), {"h", replica}, ""}},
                           {{first, last}},
                           epoch});
  }
  return cluster::Topology::merged(cluster::Topology(), view);
}

std::vector<int> masters_per_worker(const OwnerPlan& plan, std::size_t workers) {
  std::vector<int> count(workers, 0);
  for (const OwnerPlan::Entry& entry : plan.entries()) {
    if (entry.signs != nullptr && entry.endpoint.port < 8000) ++count[entry.owner];
  }
  std::sort(count.begin(), count.end());
  return count;
}

}  // namespace

TEST_CASE("masters are spread evenly over the workers, replicas too") {
  const auto plan = OwnerPlan::next({}, *topology_of({7000, 7001, 7002, 7003, 7004, 7005}, 1), 4);
  CHECK(plan->entries().size() == 12);
  CHECK(masters_per_worker(*plan, 4) == std::vector{1, 1, 2, 2});
}

TEST_CASE("a node that stays keeps its owner and its place, whatever else changes") {
  const auto before = OwnerPlan::next({}, *topology_of({7000, 7001, 7002}, 1), 2);
  const auto after = OwnerPlan::next(*before, *topology_of({7002, 7009, 7000}, 2), 2);
  for (const std::uint16_t port : std::vector<std::uint16_t>{7000, 7002}) {
    const OwnerPlan::Entry* then = before->find({"h", port});
    const OwnerPlan::Entry* now = after->find({"h", port});
    REQUIRE((then != nullptr && now != nullptr));
    CHECK(now->owner == then->owner);
    CHECK(now->node == then->node);
    CHECK(now->signs == then->signs);
  }
  CHECK(after->find({"h", 7001}) == nullptr);
  CHECK(masters_per_worker(*after, 2) == std::vector{1, 2});
}

TEST_CASE("a place that is used again has another stamp") {
  const auto before = OwnerPlan::next({}, *topology_of({7000, 7001, 7002}, 1), 2);
  const auto after = OwnerPlan::next(*before, *topology_of({7000, 7005, 7002}, 2), 2);
  const OwnerPlan::Entry* fresh = after->find({"h", 7005});
  REQUIRE(fresh != nullptr);
  const OwnerPlan::Entry& there_before = before->entries()[fresh->node.place];
  CHECK(there_before.node.stamp != fresh->node.stamp);
  CHECK(after->entries().size() == before->entries().size());
}

}  // namespace penstock::sharding
