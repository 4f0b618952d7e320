// Tasks that other threads hand to a worker.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/mailbox.h"

#include <utility>

namespace penstock::net {

void Mailbox::attach(Reactor& reactor) {
  const std::lock_guard lock(mutex_);
  reactor_ = &reactor;
  if (!tasks_.empty()) reactor_->wake();
}

void Mailbox::detach() {
  const std::lock_guard lock(mutex_);
  reactor_ = nullptr;
}

void Mailbox::post(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  pending_.store(true, std::memory_order_release);
  if (reactor_ != nullptr) reactor_->wake();
}

void Mailbox::drain() {
  if (!pending_.load(std::memory_order_acquire)) return;
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    pending_.store(false, std::memory_order_relaxed);
  }
  for (Task& task : tasks) task();
}

}  // namespace penstock::net
