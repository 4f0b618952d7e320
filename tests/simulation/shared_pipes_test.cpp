// Two workers' sides of the shared pipes, turn by turn: what happens when one of them does not come
// to look, or has another map than the other.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/sharding/shared_pipes.h"

#include <memory>
#include <string>
#include <vector>

#include "catch.h"
#include "penstock/resp/request_scanner.h"
#include "simulation/simulated_reactor.h"

namespace penstock::sharding {
namespace {

using backend::Lost;
using backend::ReplyToken;
using simulation::kMillisecond;
using simulation::Wire;
using simulation::World;

constexpr cluster::Slot kSlot = 9000;  // of the second node, whose pipes the second worker owns

// Answers each request with a value of so many bytes.
class Node final : public simulation::Peer {
 public:
  void on_bytes(std::string_view bytes) override {
    received += bytes;
    resp::RequestScanner scanner;
    while (scanner.scan(received, {}) == resp::ScanStatus::complete) {
      const std::string key(scanner.request(received)[1]);
      requests.push_back(key);
      received.erase(0, scanner.frame_size());
      scanner.reset();
      const std::string value = key + std::string(reply_bytes - key.size(), '.');
      wire->send_to_proxy("$" + std::to_string(value.size()) + "\r\n" + value + "\r\n");
    }
  }
  void on_cut() override {}

  std::shared_ptr<Wire> wire;
  std::string received;
  std::vector<std::string> requests;
  std::size_t reply_bytes = 100;
};

// What came of a worker's requests, in the order in which it came.
class Sink final : public backend::ReplySink {
 public:
  void on_reply(const ReplyToken& token, std::string_view, const backend::RequestTimes&,
                const net::HostPort&) override {
    answered.push_back(token.sequence);
  }
  void on_error(const ReplyToken& token, std::string_view, const backend::TakenRequest&,
                const net::HostPort&) override {
    answered.push_back(token.sequence);
  }
  void on_reply_piece(const ReplyToken& token, std::string_view, bool last,
                      const net::HostPort&) override {
    if (last) answered.push_back(token.sequence);
  }
  void on_lost(const ReplyToken& token, Lost why, const backend::TakenRequest&,
               const net::HostPort&, std::string_view) override {
    (why == Lost::returned ? returned : lost).push_back(token.sequence);
  }

  std::vector<std::uint32_t> answered, returned, lost;
};

struct Worker {
  Worker(World& world, Exchange& exchange, std::uint16_t index, Node& node)
      : reactor(world, [&world, &node](const net::Address&) {
          return node.wire = std::make_shared<Wire>(world, node);
        }),
        shared(exchange, index, context, 1, sink, *stats) {}

  void take(const std::shared_ptr<const cluster::Topology>& topology,
            const std::shared_ptr<const OwnerPlan>& plan) {
    router.apply(topology);
    shared.on_topology(plan, router);
  }
  void turn() {
    reactor.turn({.deadline = reactor.now() + kMillisecond});
    shared.take_mail();
    shared.tick();
    shared.publish();
    shared.flush();
  }

  net::SimulatedReactor reactor;
  net::BlockPool blocks;
  net::Resolver resolver;
  net::Mailbox mailbox;
  Sink sink;
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
  SharedPipes shared;
};

struct Pair {
  Pair() {
    cluster::View view;
    view.current_epoch = 1;
    view.shards.push_back({{"a", {"10.0.0.1", 1}, ""}, {}, {{0, 8191}}, 1});
    view.shards.push_back({{"b", {"10.0.0.1", 2}, ""}, {}, {{8192, 16383}}, 1});
    topology = cluster::Topology::merged(cluster::Topology(), view);
    plan = OwnerPlan::next({}, *topology, 2);
    asking.take(topology, plan);
    owning.take(topology, plan);
    REQUIRE(plan->find({"10.0.0.1", 2})->owner == 1);
  }
  ~Pair() {
    asking.shared.close_all();
    owning.shared.close_all();
    for (int i = 0; i < 1000 && !owning.shared.is_closed(); ++i) owning.turn();
  }

  Outlet outlet() {
    return asking.shared.outlet(asking.router.node_of(kSlot), resp::Protocol::resp2, kSlot);
  }
  void ask(std::uint32_t sequence) {
    const std::string key = std::to_string(sequence);
    const std::string frame =
        "*2\r\n$3\r\nGET\r\n$" + std::to_string(key.size()) + "\r\n" + key + "\r\n";
    outlet().append(token(sequence), frame, {.begun = asking.reactor.now_us()});
  }
  static ReplyToken token(std::uint32_t sequence) {
    ReplyToken token;
    token.session = 7;
    token.sequence = sequence;
    return token;
  }
  // Until so many requests were answered.
  void run(std::size_t answers) {
    for (int i = 0; i < 20'000 && asking.sink.answered.size() < answers; ++i) {
      owning.turn();
      asking.turn();
    }
    REQUIRE(asking.sink.answered.size() == answers);
  }

  World world{1};
  Exchange exchange{2};
  Node node;
  Worker asking{world, exchange, 0, node}, owning{world, exchange, 1, node};
  std::shared_ptr<const cluster::Topology> topology;
  std::shared_ptr<const OwnerPlan> plan;
};

std::vector<std::uint32_t> up_to(std::uint32_t count) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(i);
  return out;
}

}  // namespace

TEST_CASE("shared pipes: replies come back in the order of the requests") {
  Pair pair;
  for (std::uint32_t i = 0; i < 500; ++i) pair.ask(i);
  pair.run(500);
  CHECK(pair.asking.sink.answered == up_to(500));
  CHECK(pair.asking.shared.outstanding() == 0);
  CHECK(pair.owning.shared.outstanding() == 0);
}

TEST_CASE("shared pipes: a worker that does not take its replies stops the reading, not the rest") {
  Pair pair;
  pair.node.reply_bytes = 20'000;
  for (std::uint32_t i = 0; i < 1000; ++i) pair.ask(i);
  pair.asking.turn();
  for (int i = 0; i < 3000; ++i) pair.owning.turn();  // 20 MB are to be had
  CHECK(pair.owning.shared.memory() > (1 << 20));
  CHECK(pair.owning.shared.memory() < (8 << 20));
  pair.run(1000);
  CHECK(pair.asking.sink.answered == up_to(1000));
}

TEST_CASE("shared pipes: an owner that does not come makes its way full, and nothing is lost") {
  Pair pair;
  std::uint32_t asked = 0;
  for (; pair.outlet().has_room(); ++asked) {
    pair.ask(asked);
    pair.asking.shared.publish();
  }
  CHECK(asked > 1000);
  CHECK(pair.asking.shared.memory() < (2 << 20));
  pair.run(asked);
  CHECK(pair.asking.sink.answered == up_to(asked));
}

TEST_CASE("shared pipes: a large request goes over as its block") {
  Pair pair;
  const std::string key(200'000, 'k');
  const std::string frame = "*2\r\n$3\r\nGET\r\n$200000\r\n" + key + "\r\n";
  pair.node.reply_bytes = key.size();
  net::Block* block = pair.asking.blocks.get(frame.size());
  std::copy(frame.begin(), frame.end(), block->data());
  block->end = static_cast<std::uint32_t>(frame.size());
  pair.outlet().append(Pair::token(0), block, {});
  CHECK(pair.asking.blocks.bytes_used() == 0);
  CHECK(pair.asking.shared.memory() >= frame.size());  // it counts while it is under way
  pair.run(1);
  CHECK(pair.node.requests == std::vector{key});
  CHECK(pair.asking.shared.memory() < frame.size());
}

TEST_CASE("shared pipes: a request that goes by a newer map waits for it at the owner") {
  Pair pair;
  pair.plan = OwnerPlan::next(*pair.plan, *pair.topology, 2);
  pair.asking.take(pair.topology, pair.plan);
  pair.ask(0);
  pair.asking.turn();
  for (int i = 0; i < 100; ++i) pair.owning.turn();
  CHECK(pair.node.requests.empty());
  pair.owning.take(pair.topology, pair.plan);
  pair.ask(1);
  pair.run(2);
  CHECK(pair.asking.sink.answered == up_to(2));
  CHECK(pair.asking.sink.returned.empty());
}

TEST_CASE("shared pipes: requests that go by an older map all come back") {
  Pair pair;
  pair.ask(0);
  pair.run(1);
  pair.ask(1);
  pair.ask(2);
  pair.plan = OwnerPlan::next(*pair.plan, *pair.topology, 2);
  pair.owning.take(pair.topology, pair.plan);
  for (int i = 0; i < 100; ++i) {
    pair.asking.turn();
    pair.owning.turn();
  }
  CHECK(pair.asking.sink.returned == std::vector<std::uint32_t>{1, 2});
  CHECK(pair.asking.shared.outstanding() == 0);
  CHECK(pair.node.requests.size() == 1);
}

}  // namespace penstock::sharding
