// Tasks that other threads hand to a worker: new connections, topology changes, resolved names.
// post() from any thread; drain() on the worker, once per turn. For rare things: it takes a lock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "penstock/net/reactor.h"

namespace penstock::net {

class Mailbox {
 public:
  using Task = std::function<void()>;

  // Posts before this only queue; after it they also wake the worker.
  void attach(Reactor& reactor);
  // Posts after this are queued and never run.
  void detach();

  void post(Task task);
  void drain();

 private:
  std::mutex mutex_;
  std::vector<Task> tasks_;
  Reactor* reactor_ = nullptr;
  std::atomic<bool> pending_{false};  // lets drain() skip the lock
};

}  // namespace penstock::net
