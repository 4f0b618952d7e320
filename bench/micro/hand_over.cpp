// Two workers' sides of the shared pipes, one after the other on one thread: requests handed over,
// their replies handed back. What the caches of two CPUs cost each other is not in it.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "micro/counting_sink.h"
#include "null_backend/null_reactor.h"
#include "penstock/sharding/shared_pipes.h"

namespace penstock {
namespace {

constexpr std::string_view kGet = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n";

struct Worker {
  Worker(sharding::Exchange& exchange, std::uint16_t index, const cluster::Topology& topology,
         const std::shared_ptr<const sharding::OwnerPlan>& plan)
      : shared(exchange, index, context, 1, sink, *stats) {
    router.apply(std::make_shared<cluster::Topology>(topology));
    shared.on_topology(plan, router);
  }
  ~Worker() { shared.close_all(); }

  bench::NullReactor reactor;
  net::BlockPool blocks;
  net::Resolver resolver;
  net::Mailbox mailbox;
  bench::CountingSink sink;
  cluster::Router router;
  std::unique_ptr<stats::WorkerStats> stats = std::make_unique<stats::WorkerStats>();
  backend::PipeContext context{.reactor = reactor,
                               .blocks = blocks,
                               .resolver = resolver,
                               .mailbox = mailbox,
                               .sink = shared,
                               .limits = {},
                               .credentials = {},
                               .on_trouble = [] {},
                               .random = {}};
  sharding::SharedPipes shared;
};

std::shared_ptr<const cluster::Topology> two_nodes() {
  cluster::View view;
  view.shards.push_back({{"a", {"127.0.0.1", 1}, ""}, {}, {{0, 8191}}, 1});
  view.shards.push_back({{"b", {"127.0.0.1", 2}, ""}, {}, {{8192, 16383}}, 1});
  return cluster::Topology::merged(cluster::Topology(), view);
}

// `batch` requests of the first worker for the second one's node, and their replies.
void hand_over(benchmark::State& state) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  const auto topology = two_nodes();
  const auto plan = sharding::OwnerPlan::next({}, *topology, 2);
  sharding::Exchange exchange(2);
  Worker first(exchange, 0, *topology, plan), second(exchange, 1, *topology, plan);
  const bool owned_by_second = plan->find({"127.0.0.1", 2})->owner == 1;
  if (!owned_by_second) state.SkipWithError("the other worker owns it");
  const cluster::Slot slot = 9000;
  const cluster::NodeIndex node = first.router.node_of(slot);
  backend::ReplyToken token;
  token.session = 0;
  std::string replies;
  for (std::size_t i = 0; i < batch; ++i) replies += "$5\r\nvalue\r\n";
  net::Stream* pipe = nullptr;
  for (auto _ : state) {
    for (std::size_t i = 0; i < batch; ++i) {
      first.shared.outlet(node, resp::Protocol::resp2, slot).append(token, kGet, {});
    }
    first.shared.publish();
    second.shared.take_mail();
    second.shared.flush();
    for (net::Stream* stream : second.reactor.take_connecting()) {
      pipe = stream;
      stream->on_connected(0);
      second.shared.flush();
    }
    pipe->on_data(replies);
    second.shared.publish();
    first.shared.take_mail();
  }
  const auto commands = static_cast<std::int64_t>(batch) * state.iterations();
  if (first.sink.replies != static_cast<std::uint64_t>(commands)) {
    state.SkipWithError("lost replies");
  }
  state.SetItemsProcessed(commands);
}
BENCHMARK(hand_over)->Arg(1)->Arg(16)->Arg(256);

}  // namespace
}  // namespace penstock
