// One worker and its loop.
// SPDX-License-Identifier: Apache-2.0
#include "server/worker.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <random>
#include <system_error>
#include <utility>

#include "penstock/log/log.h"

namespace penstock::server {
namespace {

// A worker with nothing to do looks after its connections this often.
constexpr net::Nanos kIdleWait = 100'000'000;

// How long closing the last connections may take.
constexpr net::Nanos kCloseWait = 1'000'000'000;

}  // namespace

Worker::Worker(const Shared& shared, std::uint16_t index, int cpu)
    : shared_(shared), index_(index), cpu_(cpu), stats_(std::make_unique<stats::WorkerStats>()),
      router_(std::make_unique<cluster::Router>()),
      local_(std::make_unique<admin::LocalCommands>(shared.view, shared.commands)),
      batch_policy_(shared.config.io.batch_wait.count() * 1000) {}

Worker::~Worker() { stop(); }

bool Worker::start(net::Engine engine, std::string& error) {
  std::promise<std::string> made;
  std::future<std::string> result = made.get_future();
  thread_ = std::thread([this, engine, promise = std::move(made)]() mutable {
    run(engine, std::move(promise));
  });
  error = result.get();
  if (!error.empty()) thread_.join();
  return error.empty();
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  post([this] { stopping_ = true; });
  thread_.join();
}

void Worker::take_client(Worker& from, int fd, std::uint64_t id) {
  assigned_.fetch_add(1, std::memory_order_relaxed);
  if (&from == this) return sessions_->add_client(fd, id);
  post([this, fd, id] { sessions_->add_client(fd, id); });
}

// The reactor is made on the thread that uses it: an io_uring with SINGLE_ISSUER insists.
void Worker::run(net::Engine engine, std::promise<std::string> made) {
  pthread_setname_np(pthread_self(), ("worker-" + std::to_string(index_)).c_str());
  bind_to_cpu();
  try {
    reactor_ = net::make_reactor(engine, net::ReactorOptions{});
  } catch (const std::system_error& failure) {
    return made.set_value(failure.what());
  }
  sessions_ = std::make_unique<session::SessionTable>(services());
  mailbox_.attach(*reactor_);
  made.set_value("");
  serve();
  sessions_->close_all();
  const net::Nanos give_up = net::monotonic_now() + kCloseWait;
  while (!sessions_->is_closed() && net::monotonic_now() < give_up) {
    reactor_->turn({.deadline = net::monotonic_now() + kCloseWait / 100});
  }
  mailbox_.detach();
}

void Worker::serve() {
  while (!stopping_) {
    const net::Nanos now = net::monotonic_now();
    stats_->turn_time.record(static_cast<std::uint32_t>((now - reactor_->now()) / 1000));
    net::Wait wait = next_wait(now);
    if (wait.deadline > now) wait.asleep = sessions_->fall_asleep();
    if (wait.asleep == nullptr) wait.deadline = 0;
    reactor_->turn(wait);
    mailbox_.drain();
    sessions_->take_mail();
    sessions_->tick();
    sessions_->end_turn();
  }
}

net::Wait Worker::next_wait(net::Nanos now) {
  const std::size_t outstanding = sessions_->outstanding();
  peak_outstanding_ = std::max(peak_outstanding_, outstanding);
  if (now - sampled_at_ >= BatchPolicy::kPeriod) sample_load(now);
  return {.deadline = std::min(sessions_->next_due(), now + kIdleWait),
          .busy = outstanding > 0,
          .batch_wait = batch_policy_.wait(),
          .batch_events = static_cast<unsigned>(shared_.config.io.batch_events)};
}

void Worker::sample_load(net::Nanos now) {
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  const net::Nanos cpu_now = cpu.tv_sec * 1'000'000'000 + cpu.tv_nsec;
  const session::Activity activity = sessions_->take_activity();
  stats_->client_receives.add(activity.receives);
  stats_->cpu_us.set(static_cast<std::uint64_t>(cpu_now / 1000));
  batch_policy_.add({.elapsed = now - sampled_at_,
                     .cpu = cpu_now - cpu_at_sample_,
                     .active_clients = activity.active_clients,
                     .peak_outstanding = std::exchange(peak_outstanding_, 0),
                     .receives = activity.receives});
  sessions_->hold_replies(batch_policy_.hold());
  sampled_at_ = now;
  cpu_at_sample_ = cpu_now;
}

void Worker::bind_to_cpu() const {
  if (cpu_ < 0) return;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<std::size_t>(cpu_), &cpus);
  if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus) != 0) {
    spdlog::warn("worker {}: cannot be bound to CPU {}", index_, cpu_);
  }
}

session::SessionServices Worker::services() {
  return {.worker = index_,
          .random_seed = std::random_device{}(),
          .reactor = *reactor_,
          .blocks = blocks_,
          .resolver = shared_.resolver,
          .mailbox = mailbox_,
          .config = shared_.config,
          .commands = shared_.commands,
          .router = *router_,
          .exchange = shared_.exchange,
          .stats = *stats_,
          .cache = shared_.cache,
          .tracking = shared_.tracking,
          .memory_used = shared_.memory_used,
          .memory_limit = shared_.memory_limit,
          .local = *local_,
          .request_refresh = shared_.request_refresh,
          .cluster_trouble = shared_.cluster_trouble,
          .gather = [this](admin::GatherJob job, std::function<void(std::string)> done) {
            shared_.gather(std::move(job), index_, std::move(done));
          }};
}

}  // namespace penstock::server
