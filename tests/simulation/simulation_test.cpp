// Sessions, sequencer, splitting, redirects and pipes over a simulated network, cluster and clock.
// Oracle: every reply once, in order, to the right client; no write twice; no redirect leaks.
// One seed is one history: PENSTOCK_SEED=n runs only that one, PENSTOCK_HISTORIES=n so many percent
// of the usual number.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "catch.h"
#include "penstock/log/log.h"
#include "penstock/session/session_table.h"
#include "simulation/simulated_client.h"
#include "simulation/simulated_cluster.h"
#include "simulation/simulated_reactor.h"

namespace penstock::simulation {
namespace {

constexpr std::size_t kWorkers = 2;

// What may go wrong in a history.
struct Trouble {
  bool migrations = false, failovers = false, kills = false, cuts = false, stalls = false,
       downs = false, vanishing = false;
};

// Which pipes the workers use: their own, the shared ones, by session, or one after the other.
enum class Pipes : std::uint8_t { worker, shared, mixed, switching };

// One worker of the proxy, without a thread: the simulation runs its turns.
struct SimulatedWorker {
  SimulatedWorker(World& world, SimulatedCluster& cluster)
      : reactor(world, [&cluster](const net::Address& address) { return cluster.dial(address); }) {}

  net::SimulatedReactor reactor;
  net::BlockPool blocks;
  net::Mailbox mailbox;
  std::unique_ptr<cluster::Router> router = std::make_unique<cluster::Router>();
  std::unique_ptr<stats::WorkerStats> stats = std::make_unique<stats::WorkerStats>();
  std::unique_ptr<session::SessionTable> table;
  Nanos maps_until = 0;  // when the last map that is on its way arrives
};

// A proxy of a few workers in a simulated world.
class Simulation {
 public:
  Simulation(std::uint64_t seed, int clients, Trouble trouble, Pipes pipes);
  ~Simulation();

  void run(Nanos duration);
  // Lets everything in flight end, with nothing going wrong any more.
  void settle();
  // Closes everything and waits for it.
  void shut_down();
  std::string complaint() const;
  std::uint64_t sum(stats::Counter stats::WorkerStats::* counter) const;
  std::size_t bytes_used() const;

  std::vector<std::unique_ptr<SimulatedClient>> clients;

 private:
  session::SessionServices services(std::size_t index, std::uint64_t seed);
  void turn();
  void turn(SimulatedWorker& worker, Nanos deadline);
  void publish_topology(Nanos delay_max);
  void connect(SimulatedClient& client);
  void refresh();
  void something_happens();
  void keep_talking(std::size_t client);

  World world_;
  Trouble trouble_;
  Pipes pipes_;
  config::Config config_;
  command::CommandTable commands_;
  admin::ServerView view_;
  SimulatedCluster cluster_;
  net::Resolver resolver_;
  sharding::Exchange exchange_{kWorkers};
  cache::ReplyCache cache_{1 << 20, kWorkers, 1};
  cache::TrackingOptions tracking_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
  std::unique_ptr<admin::LocalCommands> local_;
  std::shared_ptr<const cluster::Topology> topology_ = std::make_shared<cluster::Topology>();
  std::shared_ptr<const sharding::OwnerPlan> plan_ = std::make_shared<sharding::OwnerPlan>();
  std::uint64_t next_id_ = 1;
  bool refreshing_ = false;
  bool calm_ = false;
};

const std::vector<std::string> kTags{"a", "b", "c", "d", "e", "f"};

Simulation::Simulation(std::uint64_t seed, int count, Trouble trouble, Pipes pipes)
    : world_(seed), trouble_(trouble), pipes_(pipes), cluster_(world_, 3) {
  config_.backend.request_timeout = std::chrono::milliseconds(400);
  config_.backend.retry_deadline = std::chrono::seconds(4);
  config_.limits.inflight_per_client = static_cast<std::uint64_t>(world_.pick(2, 40));
  config_.limits.pipe_queue = static_cast<std::uint64_t>(world_.pick(2'000, 200'000));
  view_.config = &config_;
  view_.topology = [this] { return topology_; };
  local_ = std::make_unique<admin::LocalCommands>(view_, commands_);
  for (std::size_t i = 0; i < kWorkers; ++i) {
    workers_.push_back(std::make_unique<SimulatedWorker>(world_, cluster_));
    workers_[i]->table = std::make_unique<session::SessionTable>(services(i, seed + i));
    if (world_.chance(50)) workers_[i]->table->hold_replies(300 * kMicrosecond);
  }
  if (pipes == Pipes::shared) exchange_.set_mode(sharding::Mode::shared);
  if (pipes == Pipes::mixed) exchange_.set_mode(sharding::Mode::mixed);
  topology_ = cluster::Topology::merged(*topology_, cluster_.view());
  publish_topology(0);
  for (int i = 0; i < count; ++i) {
    const std::vector<std::string> tags{kTags[static_cast<std::size_t>(i) % kTags.size()],
                                        kTags[static_cast<std::size_t>(i + 1) % kTags.size()],
                                        kTags[static_cast<std::size_t>(i + 3) % kTags.size()]};
    clients.push_back(std::make_unique<SimulatedClient>(world_, i, tags));
    connect(*clients.back());
    keep_talking(clients.size() - 1);
  }
  something_happens();
}

Simulation::~Simulation() { shut_down(); }

void Simulation::shut_down() {
  const auto is_closed = [this] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker->table->is_closed(); });
  };
  for (const auto& worker : workers_) worker->table->close_all();
  for (int i = 0; i < 100'000 && !is_closed(); ++i) turn();
}

std::uint64_t Simulation::sum(stats::Counter stats::WorkerStats::* counter) const {
  std::uint64_t total = 0;
  for (const auto& worker : workers_) total += (worker->stats.get()->*counter).get();
  return total;
}

std::size_t Simulation::bytes_used() const {
  std::size_t total = 0;
  for (const auto& worker : workers_) total += worker->blocks.bytes_used();
  return total;
}

// It reaches each worker when it does: one may go by a map that the other does not have yet. Maps
// stay in their order.
void Simulation::publish_topology(Nanos delay_max) {
  plan_ = sharding::OwnerPlan::next(*plan_, *topology_, kWorkers);
  for (const auto& worker : workers_) {
    worker->maps_until = std::max(worker->maps_until, world_.now()) +
                         world_.pick(0, delay_max);
    world_.at(worker->maps_until, [&worker = *worker, topology = topology_, plan = plan_] {
      if (worker.table == nullptr) return;
      worker.mailbox.post([&table = *worker.table, topology, plan] {
        table.on_topology(topology, plan);
      });
    });
  }
}

session::SessionServices Simulation::services(std::size_t index, std::uint64_t seed) {
  SimulatedWorker& worker = *workers_[index];
  return {.worker = static_cast<std::uint16_t>(index),
          .random_seed = static_cast<std::uint32_t>(seed),
          .reactor = worker.reactor,
          .blocks = worker.blocks,
          .resolver = resolver_,
          .mailbox = worker.mailbox,
          .config = config_,
          .commands = commands_,
          .router = *worker.router,
          .exchange = exchange_,
          .stats = *worker.stats,
          .cache = cache_,
          .tracking = tracking_,
          .memory_used = [] { return std::size_t{0}; },
          .memory_limit = SIZE_MAX,
          .local = *local_,
          .request_refresh = [this] { refresh(); },
          .cluster_trouble = [] { return std::string("simulated"); },
          .gather = [](admin::GatherJob, const std::function<void(std::string)>&) {}};
}

// One event, or more, and then every worker: some of them with nothing to do, or with mail from
// others that has waited for some turns.
void Simulation::turn() {
  Nanos due = world_.now() + 10 * kMillisecond;
  for (const auto& worker : workers_) due = std::min(due, worker->table->next_due());
  const auto first = static_cast<std::size_t>(world_.pick(0, kWorkers - 1));
  for (std::size_t i = 0; i < kWorkers; ++i) {
    const bool late = i > 0 && !calm_ && world_.chance(30);
    if (!late) turn(*workers_[(first + i) % kWorkers], i == 0 ? due : world_.now());
  }
  if (pipes_ == Pipes::switching && world_.chance(1)) {
    exchange_.set_mode(static_cast<sharding::Mode>(world_.pick(0, 2)));
  }
}

void Simulation::turn(SimulatedWorker& worker, Nanos deadline) {
  std::atomic<bool>* const asleep = worker.table->fall_asleep();
  worker.reactor.turn({.deadline = asleep == nullptr ? world_.now() : deadline, .asleep = asleep});
  if (asleep != nullptr) *asleep = false;
  worker.mailbox.drain();
  worker.table->take_mail();
  worker.table->tick();
  worker.table->end_turn();
}

void Simulation::connect(SimulatedClient& client) {
  auto wire = std::make_shared<Wire>(world_, client);
  client.connect(wire);
  SimulatedWorker& worker = *workers_[next_id_ % kWorkers];
  worker.table->add_client(worker.reactor.make_descriptor(wire), next_id_++);
}

// One refresh at a time; its answer is as old as the network makes it.
void Simulation::refresh() {
  if (std::exchange(refreshing_, true)) return;
  world_.after(world_.pick(1, 100) * kMillisecond, [this] {
    const cluster::View view = cluster_.view();
    world_.after(world_.pick(1, 20) * kMillisecond, [this, view] {
      refreshing_ = false;
      const auto after = cluster::Topology::merged(*topology_, view);
      if (after->same_as(*topology_)) return;
      topology_ = after;
      publish_topology(500 * kMicrosecond);
    });
  });
}

void Simulation::keep_talking(std::size_t index) {
  world_.after(world_.pick(10, 3000) * kMicrosecond, [this, index] {
    SimulatedClient& client = *clients[index];
    if (calm_) return;
    if (!client.is_connected()) connect(client);
    client.send_some();
    if (trouble_.vanishing && world_.chance(1)) client.vanish();
    keep_talking(index);
  });
}

void Simulation::something_happens() {
  world_.after(world_.pick(1, 60) * kMillisecond, [this] {
    if (calm_) return;
    const auto shard = static_cast<std::size_t>(
        world_.pick(0, static_cast<std::int64_t>(cluster_.shards()) - 1));
    const std::string& tag = kTags[static_cast<std::size_t>(
        world_.pick(0, static_cast<std::int64_t>(kTags.size()) - 1))];
    if (trouble_.migrations) {
      if (world_.chance(30)) cluster_.begin_migration(cluster::hash_slot(tag));
      for (int i = 0; i < 8; ++i) cluster_.move_a_key();
      if (world_.chance(25)) cluster_.finish_migration();
    }
    if (trouble_.failovers && world_.chance(5)) cluster_.fail_over(shard);
    if (trouble_.kills && world_.chance(2)) cluster_.kill_master(shard);
    if (trouble_.cuts && world_.chance(10)) cluster_.cut_connections(shard);
    if (trouble_.stalls && world_.chance(3)) {
      cluster_.stall(shard, world_.pick(10, 1500) * kMillisecond);
    }
    if (trouble_.downs && world_.chance(2)) cluster_.go_down(world_.pick(50, 900) * kMillisecond);
    something_happens();
  });
}

void Simulation::run(Nanos duration) {
  const Nanos end = world_.now() + duration;
  while (world_.now() < end && complaint().empty()) turn();
}

void Simulation::settle() {
  calm_ = true;
  cluster_.finish_migration();
  const Nanos end = world_.now() + 30 * kSecond;
  const auto answered = [this] {
    for (const auto& client : clients) {
      if (client->unanswered() > 0) return false;
    }
    return true;
  };
  while (world_.now() < end && complaint().empty() && !answered()) turn();
}

std::string Simulation::complaint() const {
  for (const auto& client : clients) {
    if (!client->complaint().empty()) return client->complaint();
  }
  return {};
}

std::vector<std::uint64_t> seeds(std::uint64_t count) {
  if (const char* one = std::getenv("PENSTOCK_SEED")) return {std::strtoull(one, nullptr, 10)};
  const char* percent = std::getenv("PENSTOCK_HISTORIES");
  if (percent != nullptr) count = count * std::strtoull(percent, nullptr, 10) / 100 + 1;
  std::vector<std::uint64_t> out;
  for (std::uint64_t seed = 1; seed <= count; ++seed) out.push_back(seed);
  return out;
}

struct Totals {
  std::uint64_t replies = 0, errors = 0, unknown = 0, redirects = 0, handed_over = 0, switches = 0;
  std::string last_error;
};

// Runs histories with this trouble; every one must end with every request answered rightly.
Totals simulate(Trouble trouble, std::uint64_t histories, Nanos duration = kSecond,
                Pipes pipes = Pipes::worker) {
  Totals totals;
  for (const std::uint64_t seed : seeds(histories)) {
    INFO("seed " << seed);
    Simulation simulation(seed, 8, trouble, pipes);
    simulation.run(duration);
    simulation.settle();
    REQUIRE(simulation.complaint() == "");
    for (const auto& client : simulation.clients) {
      REQUIRE(client->unanswered() == 0);
      totals.replies += client->replies;
      totals.errors += client->errors;
      totals.unknown += client->unknown_outcomes;
      if (!client->last_error.empty()) totals.last_error = client->last_error;
    }
    using Stats = stats::WorkerStats;
    for (const auto counter : {&Stats::moved, &Stats::ask, &Stats::tryagain}) {
      totals.redirects += simulation.sum(counter);
    }
    totals.handed_over += simulation.sum(&Stats::handed_over);
    totals.switches += simulation.sum(&Stats::pipe_switches);
  }
  CHECK(totals.replies > histories);
  return totals;
}


constexpr Trouble kEverything{.migrations = true,
                              .failovers = true,
                              .kills = true,
                              .cuts = true,
                              .stalls = true,
                              .downs = true,
                              .vanishing = true};

// The proxy's own log of a history is of no interest here.
const bool kQuiet = (spdlog::set_level(spdlog::level::off), true);

}  // namespace

TEST_CASE("in a quiet cluster every reply is right and none is an error") {
  CHECK(simulate({}, 15).last_error == "");
}

TEST_CASE("migrations reach no client: no error, no reordering, no lost write") {
  const Totals totals = simulate({.migrations = true}, 30);
  CHECK(totals.last_error == "");
  CHECK(totals.redirects > 100);
}

TEST_CASE("planned failovers reach no client") {
  const Totals totals = simulate({.migrations = true, .failovers = true}, 25);
  CHECK(totals.last_error == "");
  CHECK(totals.redirects > 100);
}

TEST_CASE("a cluster that is down for a moment costs only what could not be kept in order") {
  const Totals totals = simulate({.migrations = true, .downs = true}, 12, 2 * kSecond);
  const bool overtaken = totals.last_error.find("a later command of its slot ran") !=
                         std::string::npos;
  CHECK((totals.last_error.empty() || overtaken));
}

TEST_CASE("cut connections cost an unknown outcome at most, never a wrong value") {
  CHECK(simulate({.migrations = true, .cuts = true}, 20).unknown > 0);
}

TEST_CASE("killed masters cost errors at most, never a wrong value") {
  simulate({.migrations = true, .failovers = true, .kills = true, .cuts = true}, 20, 3 * kSecond);
}

TEST_CASE("PR-11: a late reply is never given to the next request") {
  CHECK(simulate({.cuts = true, .stalls = true}, 20, 3 * kSecond).unknown > 0);
}

TEST_CASE("clients that vanish disturb nobody") {
  simulate({.migrations = true, .failovers = true, .cuts = true, .vanishing = true}, 15);
}

TEST_CASE("everything at once") {
  simulate(kEverything, 20, 4 * kSecond);
}

TEST_CASE("shared pipes: in a quiet cluster every reply is right and none is an error") {
  const Totals totals = simulate({}, 10, kSecond, Pipes::shared);
  CHECK(totals.last_error == "");
  CHECK(totals.handed_over > totals.replies / 4);
}

TEST_CASE("shared pipes: migrations and planned failovers reach no client") {
  const Totals totals = simulate({.migrations = true, .failovers = true}, 25, kSecond,
                                 Pipes::shared);
  CHECK(totals.last_error == "");
  CHECK(totals.redirects > 100);
}

TEST_CASE("shared pipes: everything at once") {
  simulate(kEverything, 20, 4 * kSecond, Pipes::shared);
}

TEST_CASE("changing between own and shared pipes keeps every session's order") {
  const Totals totals = simulate({.migrations = true}, 20, 2 * kSecond, Pipes::switching);
  CHECK(totals.last_error == "");
  CHECK(totals.switches > 1000);
}

TEST_CASE("changing between own and shared pipes while everything goes wrong") {
  CHECK(simulate(kEverything, 15, 4 * kSecond, Pipes::switching).switches > 500);
  CHECK(simulate(kEverything, 6, 4 * kSecond, Pipes::mixed).handed_over > 300);
}

TEST_CASE("nothing is left behind when clients and nodes are gone") {
  for (const std::uint64_t seed : seeds(8)) {
    Simulation simulation(seed, 8, {.migrations = true, .cuts = true, .vanishing = true},
                          Pipes::switching);
    simulation.run(kSecond);
    simulation.settle();
    simulation.shut_down();
    CHECK(simulation.bytes_used() == 0);
  }
}

}  // namespace penstock::simulation
