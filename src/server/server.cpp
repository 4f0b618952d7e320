// Builds the daemon and runs it.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/server/server.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "penstock/cluster/server_cpu.h"
#include "penstock/cluster/topology_refresher.h"
#include "penstock/log/log.h"
#include "penstock/net/dial.h"
#include "penstock/net/resolver.h"
#include "penstock/net/sockets.h"
#include "server/cache_control.h"
#include "server/gather.h"
#include "server/limits.h"
#include "server/listener.h"
#include "server/service_manager.h"
#include "server/sharding_control.h"
#include "server/worker.h"

namespace penstock::server {
namespace {

// How often the main thread looks at signals, rates, the sharding experiment and a drain's end.
constexpr timespec kMainTurn{0, 100'000'000};

// How long all masters together may take to tell their CPU time.
constexpr std::chrono::milliseconds kServerCpuLimit{250};

constexpr std::string_view kTooManyClients = "-ERR max number of clients reached\r\n";

// Descriptors for everything that is not a client: nodes, rings, the log.
constexpr std::uint64_t kOtherDescriptors = 512;

std::string random_id() {
  std::random_device random;
  std::string id;
  while (id.size() < 40) id += fmt::format("{:08x}", random());
  return id.substr(0, 40);
}

// The CPUs this process may use, in order.
std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

cache::TrackingOptions tracking_options(const config::Config& config) {
  const auto nanos = [](config::Duration duration) { return duration.count() * 1000; };
  const auto& wanted = config.reply_cache;
  return {.mode = wanted.tracking == config::Tracking::optin ? cache::Tracking::optin
                                                             : cache::Tracking::broadcast,
          .filter = {wanted.prefixes, wanted.never},
          .max_age = nanos(wanted.max_age),
          .max_staleness = nanos(wanted.max_staleness)};
}

sigset_t handled_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

struct Server::Parts {
  explicit Parts(const config::Config& given) : config(given) {}

  std::size_t worker_count() const {
    return config.server.workers == 0 ? usable_cpus().size() : config.server.workers;
  }
  void open_listeners();
  void start_workers();
  void start_refresher();
  int dial(const cluster::Endpoint& node, std::chrono::milliseconds timeout);
  void start_sharding();
  void choose_engine(net::Engine& engine);
  bool start_all(net::Engine engine, std::string& error);
  void build_view();
  void start_listening();
  void accept(Worker& on, int fd);
  void drain();
  bool is_drained() const;
  void update_rate();
  std::size_t memory_used() const;

  const config::Config config;
  const command::CommandTable commands;
  admin::ServerView view;
  sharding::Exchange exchange{worker_count()};
  cache::ReplyCache cache{config.reply_cache.max_bytes_per_worker * worker_count(), worker_count(),
                          std::random_device{}()};
  const cache::TrackingOptions tracking{tracking_options(config)};
  Workers workers;
  net::Resolver resolver;  // goes before the workers, to whom it answers
  std::vector<std::unique_ptr<ClientListener>> listeners;
  std::unique_ptr<cluster::TopologyRefresher> refresher;
  std::unique_ptr<ShardingControl> sharding;
  std::unique_ptr<CacheControl> cache_control;
  Shared shared{.config = config,
                .commands = commands,
                .view = view,
                .resolver = resolver,
                .exchange = exchange,
                .cache = cache,
                .tracking = tracking,
                .request_refresh = [this] { refresher->request(); },
                .cluster_trouble = [this] { return refresher->last_error(); },
                .gather = [this](admin::GatherJob job, std::size_t asker,
                                 std::function<void(std::string)> done) {
                  server::gather(workers, std::move(job), asker, std::move(done));
                },
                .memory_used = [this] { return memory_used(); },
                .memory_limit = memory_limit(config.limits.memory)};
  std::atomic<bool> started{false};  // true once `workers` stays as it is
  std::atomic<std::uint64_t> next_client_id{1};
  std::atomic<std::uint64_t> ops_per_second{0};
  std::uint64_t last_commands = 0;
  net::Nanos last_rate_at = 0;
};

void Server::Parts::build_view() {
  view.config = &config;
  view.run_id = random_id();
  view.started_at_ms = net::monotonic_now() / 1'000'000;
  view.topology = [this] { return refresher->current(); };
  view.sharding = [this] { return sharding->report(); };
  view.set_sharding = [this](config::Sharding wanted) { sharding->set(wanted); };
  view.cache = [this] { return cache_control->report(); };
  view.enable_cache = [this](bool on) { cache_control->enable(on); };
  view.resize_cache = [this](std::uint64_t bytes) { cache_control->resize(bytes); };
  view.flush_cache = [this] { cache_control->flush(); };
  view.ops_per_second = [this] { return ops_per_second.load(std::memory_order_relaxed); };
}

// Called by the workers, which run before the last of them is made.
std::size_t Server::Parts::memory_used() const {
  if (!started.load(std::memory_order_acquire)) return 0;
  std::size_t total = 0;
  for (const auto& worker : workers) total += worker->stats().buffer_bytes.get();
  return total;
}

void Server::Parts::open_listeners() {
  for (const std::string& address : config.server.listen) {
    const int fd = net::open_listening_socket(address, static_cast<int>(config.server.tcp_backlog));
    const std::size_t index = listeners.size();
    listeners.push_back(std::make_unique<ClientListener>(fd, address, [this, index](int client) {
      accept(*workers[index % workers.size()], client);
    }));
    if (view.port == 0) {
      const auto bound = net::parse_host_port(net::to_string(net::local_address(fd)));
      if (bound) view.port = bound->port;
    }
  }
}

// One decision for all workers. io_uring is refused in many containers; then epoll serves.
void Server::Parts::choose_engine(net::Engine& engine) {
  engine = net::Engine::epoll;
  if (config.io.engine == config::Engine::epoll) return;
  const net::UringProbe probe = net::probe_io_uring();
  if (probe.usable) {
    engine = net::Engine::io_uring;
    return;
  }
  const std::string why = fmt::format("{}; {}", std::strerror(probe.error), probe.cure);
  if (config.io.engine == config::Engine::io_uring) {
    throw std::runtime_error("io.engine = io_uring cannot be used: " + why);
  }
  view.engine_fallback = why;
  spdlog::warn("io_uring cannot be used, serving with epoll: {}", why);
}

bool Server::Parts::start_all(net::Engine engine, std::string& error) {
  const std::vector<int> cpus = usable_cpus();
  const std::size_t count = exchange.workers();
  for (std::size_t i = 0; i < count; ++i) {
    // Two workers on one CPU would only hinder each other, so more workers than CPUs float.
    const bool pins = config.server.pin_workers && count <= cpus.size();
    workers.push_back(std::make_unique<Worker>(shared, static_cast<std::uint16_t>(i),
                                               pins ? cpus[i] : -1));
    if (!workers.back()->start(engine, error)) {
      workers.clear();
      return false;
    }
  }
  return true;
}

void Server::Parts::start_workers() {
  net::Engine engine = net::Engine::epoll;
  choose_engine(engine);
  std::string error;
  if (!start_all(engine, error)) {
    if (engine == net::Engine::epoll || config.io.engine == config::Engine::io_uring) {
      throw std::runtime_error("cannot start the workers: " + error);
    }
    view.engine_fallback = error + "; set LimitMEMLOCK=infinity or fewer server.workers";
    spdlog::warn("not enough io_uring rings, serving with epoll: {}", view.engine_fallback);
    engine = net::Engine::epoll;
    if (!start_all(engine, error)) throw std::runtime_error("cannot start the workers: " + error);
  }
  started.store(true, std::memory_order_release);
  view.engine = engine == net::Engine::io_uring ? "io_uring" : "epoll";
  for (const auto& worker : workers) {
    view.workers.push_back(&worker->stats());
    view.reactors.push_back(&worker->reactor_stats());
  }
}

void Server::Parts::start_refresher() {
  cluster::TopologyRefresher::Options options;
  for (const std::string& seed : config.cluster.seeds) {
    const auto address = net::parse_host_port(seed);
    options.seeds.push_back({address->host, address->port});
  }
  options.username = config.cluster.username;
  options.password = config.cluster.password;
  options.interval =
      std::chrono::duration_cast<std::chrono::milliseconds>(config.cluster.refresh_interval);
  options.timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(config.backend.connect_timeout);
  options.self = view.run_id;
  const auto publish = [this, plan = std::make_shared<const sharding::OwnerPlan>()](
                           std::shared_ptr<const cluster::Topology> topology) mutable {
    plan = sharding::OwnerPlan::next(*plan, *topology, workers.size());
    for (const auto& worker : workers) {
      worker->post([&sessions = worker->sessions(), topology, plan] {
        sessions.on_topology(topology, plan);
      });
    }
  };
  refresher = std::make_unique<cluster::TopologyRefresher>(
      std::move(options), [this](const auto& node, auto timeout) { return dial(node, timeout); },
      publish);
  view.refresher = &refresher->stats();
}

int Server::Parts::dial(const cluster::Endpoint& node, std::chrono::milliseconds timeout) {
  const auto address = resolver.resolve_within({node.host, node.port}, timeout);
  return address ? net::dial(*address, timeout) : -1;
}

void Server::Parts::start_sharding() {
  const auto ask_servers = [this]() -> std::optional<sharding::ServerCpu> {
    const auto topology = refresher->current();
    const std::optional<double> seconds = cluster::server_cpu(
        *topology, {config.cluster.username, config.cluster.password}, kServerCpuLimit,
        [this](const auto& node, auto limit) { return dial(node, limit); });
    if (!seconds) return std::nullopt;
    return sharding::ServerCpu{*seconds, topology->version()};
  };
  sharding = std::make_unique<ShardingControl>(exchange, config.backend.sharding, view.workers,
                                               ask_servers);
}

void Server::Parts::start_listening() {
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    Worker& worker = *workers[i % workers.size()];
    ClientListener& listener = *listeners[i];
    worker.post([&worker, &listener] { worker.reactor().listen(listener); });
    spdlog::info("listening on {}", listener.address());
  }
}

// Called on the worker that accepted; the connection goes to the worker that has the fewest.
void Server::Parts::accept(Worker& on, int fd) {
  std::uint64_t total = 0;
  Worker* target = nullptr;
  for (const auto& worker : workers) {
    total += worker->load();
    if (target == nullptr || worker->load() < target->load()) target = worker.get();
  }
  if (total >= config.server.max_clients) {
    LOG_LIMITED(warn, "a client was turned away: server.max_clients is reached");
    [[maybe_unused]] const ssize_t n =
        ::send(fd, kTooManyClients.data(), kTooManyClients.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::close(fd);
    on.count_rejected();
    return;
  }
  target->take_client(on, fd, next_client_id.fetch_add(1, std::memory_order_relaxed));
}

void Server::Parts::drain() {
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    Worker& worker = *workers[i % workers.size()];
    worker.post([&worker, &listener = *listeners[i]] {
      worker.reactor().stop_listening(listener);
      ::shutdown(listener.fd(), SHUT_RDWR);  // or the kernel would go on taking connections
    });
  }
  for (const auto& worker : workers) {
    worker->post([&sessions = worker->sessions()] { sessions.drain(); });
  }
}

bool Server::Parts::is_drained() const {
  return std::all_of(workers.begin(), workers.end(),
                     [](const auto& worker) { return worker->load() == 0; });
}

void Server::Parts::update_rate() {
  const net::Nanos now = net::monotonic_now();
  if (now - last_rate_at < 1'000'000'000) return;
  std::uint64_t total = 0;
  for (const auto& worker : workers) {
    for (const stats::CommandStats& each : worker->stats().by_command) total += each.calls.get();
  }
  const double seconds = static_cast<double>(now - last_rate_at) / 1e9;
  ops_per_second =
      static_cast<std::uint64_t>(static_cast<double>(total - last_commands) / seconds);
  last_commands = total;
  last_rate_at = now;
}

void block_signals() {
  const sigset_t signals = handled_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

Server::Server(const config::Config& config) : parts_(std::make_unique<Parts>(config)) {
  raise_descriptor_limit(config.server.max_clients + kOtherDescriptors);
  parts_->build_view();
  parts_->open_listeners();
  parts_->start_workers();
  parts_->start_refresher();
  parts_->start_sharding();
  parts_->cache_control = std::make_unique<CacheControl>(parts_->cache, parts_->config,
                                                         parts_->view.workers);
  parts_->start_listening();
  spdlog::info("penstock {} serves with {} workers on {}", PENSTOCK_VERSION,
               parts_->workers.size(), parts_->view.engine);
  notify_service_manager("READY=1");
}

Server::~Server() {
  // The refresher posts to workers, so it stops first; workers still ask it for a refresh.
  parts_->refresher->stop();
  for (const auto& worker : parts_->workers) worker->stop();
}

int Server::run() {
  const sigset_t signals = handled_signals();
  net::Nanos drain_until = 0;
  while (true) {
    const int signal = sigtimedwait(&signals, nullptr, &kMainTurn);
    parts_->update_rate();
    parts_->sharding->tick();
    parts_->cache_control->tick();
    const bool stops = signal == SIGTERM || signal == SIGINT;
    if (stops && drain_until > 0) {
      spdlog::warn("told to stop again: stopping now");
      return 0;
    }
    if (stops) {
      spdlog::info("stopping: answering what is in flight");
      notify_service_manager("STOPPING=1");
      parts_->drain();
      drain_until = net::monotonic_now() + parts_->config.server.shutdown_grace.count() * 1000;
    }
    if (signal == SIGUSR1) log::reopen();
    if (signal == SIGHUP) spdlog::warn("SIGHUP: reloading the configuration is not supported yet");
    if (drain_until == 0) continue;
    if (parts_->is_drained()) return 0;
    if (net::monotonic_now() > drain_until) {
      spdlog::warn("stopping: server.shutdown_grace is over, closing the rest");
      return 0;
    }
  }
}

}  // namespace penstock::server
