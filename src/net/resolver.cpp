// Turns host names into addresses on threads of its own.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/resolver.h"

#include <netdb.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "penstock/log/log.h"

namespace penstock::net {
namespace {

// One slow name must not hold up the others for long.
constexpr std::size_t kThreadsMax = 4;

Resolver::Answer ask_system(const HostPort& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(name.port);
  if (getaddrinfo(name.host.c_str(), port.c_str(), &hints, &found) != 0) return std::nullopt;
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

}  // namespace

struct Resolver::State {
  struct Job {
    HostPort name;
    std::vector<Done> askers;
  };

  void work();
  Answer look_up(const HostPort& name);

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  std::unordered_map<std::string, Address> last;  // by "host:port"
  std::size_t threads = 0;
  std::size_t idle = 0;
  bool stopping = false;
};

Resolver::Resolver() : state_(std::make_shared<State>()) {}

Resolver::~Resolver() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->jobs.clear();
  state_->changed.notify_all();
}

void Resolver::resolve(const HostPort& name, Done done) {
  if (const Answer numeric = numeric_address(name.host, name.port)) return done(numeric);
  const std::lock_guard lock(state_->mutex);
  for (State::Job& job : state_->jobs) {
    if (job.name.host != name.host || job.name.port != name.port) continue;
    job.askers.push_back(std::move(done));
    return;
  }
  state_->jobs.push_back({name, {}});
  state_->jobs.back().askers.push_back(std::move(done));
  if (state_->idle < state_->jobs.size() && state_->threads < kThreadsMax) {
    ++state_->threads;
    std::thread([state = state_] { state->work(); }).detach();
  }
  state_->changed.notify_one();
}

Resolver::Answer Resolver::resolve_within(const HostPort& name, std::chrono::milliseconds timeout) {
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = promise->get_future();
  resolve(name, [promise](Answer found) { promise->set_value(found); });
  if (answer.wait_for(timeout) == std::future_status::ready) return answer.get();
  return std::nullopt;
}

void Resolver::State::work() {
  std::unique_lock lock(mutex);
  while (true) {
    ++idle;
    changed.wait(lock, [this] { return stopping || !jobs.empty(); });
    --idle;
    if (stopping) return;
    const Job job = std::move(jobs.front());
    jobs.pop_front();
    lock.unlock();
    const Answer found = look_up(job.name);
    lock.lock();
    if (stopping) return;
    // Under the lock, so that the resolver's owner is still there.
    for (const Done& done : job.askers) done(found);
  }
}

Resolver::Answer Resolver::State::look_up(const HostPort& name) {
  const std::string text = to_string(name);
  const Answer found = ask_system(name);
  const std::lock_guard lock(mutex);
  if (found) {
    last[text] = *found;
    return found;
  }
  const auto known = last.find(text);
  LOG_LIMITED(warn, "cannot resolve {}{}", text,
              known == last.end() ? "" : "; using its last known address");
  return known == last.end() ? std::nullopt : Answer(known->second);
}

}  // namespace penstock::net
