// What both back ends share: the clock, the probe, the choice.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/reactor.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include "net/epoll_reactor.h"
#include "net/uring_reactor.h"
#include "penstock/log/check.h"

namespace penstock::net {
namespace {

// One stream of the probe's pair of sockets; remembers what arrived.
class ProbeStream final : public Stream {
 public:
  ProbeStream() : Stream(StreamKind::client) {}
  void on_connected(int) override {}
  void on_data(std::string_view bytes) override { received += bytes; }
  void on_sent(std::size_t) override {}
  void on_end(int) override {}
  void on_closed() override { closed = true; }

  std::string received;
  bool closed = false;
};

// Sends a few bytes through a ring to itself and closes both ends; 0 or an errno.
int exchange_bytes(UringReactor& reactor) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) return errno;
  ProbeStream left, right;
  reactor.adopt(left, fds[0]);
  reactor.adopt(right, fds[1]);
  reactor.start_receive(right);
  char ping[] = "ping";
  const iovec piece{ping, 4};
  reactor.send(left, {&piece, 1});
  const Nanos deadline = monotonic_now() + 1'000'000'000;
  while (right.received.size() < 4 && monotonic_now() < deadline)
    reactor.turn({.deadline = deadline});
  reactor.close(left);
  reactor.close(right);
  while (!left.closed || !right.closed) reactor.turn({.deadline = monotonic_now() + 1'000'000});
  return right.received == "ping" ? 0 : ENOSYS;
}

std::string cure_for(int error) {
  switch (error) {
    case EPERM:
    case EACCES:
      return "a seccomp profile (Docker's and Kubernetes' default) or kernel.io_uring_disabled "
             "refuses it: allow the io_uring system calls, see seccomp.json in the package";
    case ENOSYS:
    case EINVAL:
      return "this kernel lacks what is needed: use Linux 6.1 or newer";
    case ENOMEM:
      return "the limit of locked memory is too small: set LimitMEMLOCK=infinity";
    default:
      return "see io_uring_setup(2)";
  }
}

}  // namespace

Stream::~Stream() { CHECK(fd_ < 0 && pending_ == 0); }

Nanos monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

UringProbe probe_io_uring() {
  int error = 0;
  try {
    UringReactor reactor(ReactorOptions{});
    error = exchange_bytes(reactor);
  } catch (const std::system_error& failure) {
    error = failure.code().value();
  }
  const bool refused = error == ENOSYS || error == EPERM || error == EACCES || error == EINVAL;
  return {error == 0, refused, error, error == 0 ? "" : cure_for(error)};
}

std::unique_ptr<Reactor> make_reactor(Engine engine, const ReactorOptions& options) {
  if (engine == Engine::io_uring) return std::make_unique<UringReactor>(options);
  return std::make_unique<EpollReactor>(options);
}

}  // namespace penstock::net
