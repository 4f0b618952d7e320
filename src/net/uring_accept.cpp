// The io_uring back end: taking connections.
// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "net/uring_reactor.h"

namespace penstock::net {
namespace {

// After running out of descriptors, accepting rests this long.
constexpr Nanos kAcceptPause = 100'000'000;

}  // namespace

void UringReactor::listen(Listener& listener) {
  listener.wanted_ = true;
  arm_accept(listener);
}

void UringReactor::stop_listening(Listener& listener) {
  listener.wanted_ = false;
  std::erase(paused_, &listener);
  if (listener.armed_) cancel(&listener, Operation::accept);
}

void UringReactor::arm_accept(Listener& listener) {
  io_uring_sqe* entry = next_entry(Operation::accept, &listener);
  const auto data = entry->user_data;
  io_uring_prep_multishot_accept(entry, listener.fd_, nullptr, nullptr,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
  entry->user_data = data;
  listener.armed_ = true;
}

void UringReactor::complete_accept(Listener& listener, const io_uring_cqe& cqe) {
  if ((cqe.flags & IORING_CQE_F_MORE) == 0) listener.armed_ = false;
  if (cqe.res >= 0) {
    if (listener.wanted_) {
      listener.on_accepted(cqe.res);
    } else {
      ::close(cqe.res);
    }
  }
  if (listener.armed_ || !listener.wanted_) return;
  if (cqe.res >= 0 || cqe.res == -EINTR || cqe.res == -ECONNABORTED || cqe.res == -EAGAIN) {
    arm_accept(listener);
    return;
  }
  // Out of descriptors or memory: the backlog waits.
  stats_.accept_pauses.add();
  paused_.push_back(&listener);
  accept_again_at_ = now() + kAcceptPause;
}

void UringReactor::resume_accepting() {
  if (paused_.empty() || now() < accept_again_at_) return;
  for (Listener* listener : paused_) arm_accept(*listener);
  paused_.clear();
}

}  // namespace penstock::net
