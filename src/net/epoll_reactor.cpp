// The epoll back end.
// SPDX-License-Identifier: Apache-2.0
#include "net/epoll_reactor.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

#include "net/send_now.h"
#include "penstock/log/check.h"

namespace penstock::net {
namespace {

constexpr std::size_t kEventsMax = 512;
constexpr std::size_t kReceiveBytes = 65536;
constexpr int kAcceptsPerEvent = 64;

constexpr Nanos kAcceptPause = 100'000'000;

// Listeners and streams share the event's pointer; listeners have the lowest bit set.
constexpr std::uintptr_t kListenerBit = 1;
constexpr std::uint64_t kDescriptorsMax = 1 << 30;  // below every pointer

void sleep_for(Nanos duration) {
  const timespec time{duration / 1'000'000'000, duration % 1'000'000'000};
  nanosleep(&time, nullptr);
}

}  // namespace

EpollReactor::EpollReactor(const ReactorOptions& options)
    : options_(options), buffer_(new char[kReceiveBytes]), events_(kEventsMax) {
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_fd_ < 0 || wake_fd_ < 0) {
    throw std::system_error(errno, std::generic_category(), "epoll");
  }
  watch_own(wake_fd_);
  watch_own(ticker_.fd());
  prctl(PR_SET_TIMERSLACK, 1);  // or a wait of 30 us takes 80
}

EpollReactor::~EpollReactor() {
  ::close(epoll_fd_);
  ::close(wake_fd_);
}

// The wake-up and the ticker: their events carry their descriptor, which is no pointer.
void EpollReactor::watch_own(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<std::uint64_t>(fd);
  CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0);
}

void EpollReactor::watch_listener(Listener& listener, int operation) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = reinterpret_cast<std::uintptr_t>(&listener) | kListenerBit;
  epoll_ctl(epoll_fd_, operation, listener.fd_, &event);
  listener.armed_ = operation == EPOLL_CTL_ADD;
}

void EpollReactor::listen(Listener& listener) {
  listener.wanted_ = true;
  watch_listener(listener, EPOLL_CTL_ADD);
}

void EpollReactor::stop_listening(Listener& listener) {
  listener.wanted_ = false;
  std::erase(paused_, &listener);
  if (listener.armed_) watch_listener(listener, EPOLL_CTL_DEL);
}

void EpollReactor::adopt(Stream& stream, int fd) {
  CHECK(stream.fd_ < 0);
  stream.fd_ = fd;
}

bool EpollReactor::connect(Stream& stream, const Address& address) {
  CHECK(stream.fd_ < 0);
  stream.fd_ = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (stream.fd_ < 0) return false;
  stream.connecting_ = true;
  if (::connect(stream.fd_, address.get(), address.length) != 0 && errno != EINPROGRESS) {
    stream.end_error_ = errno;  // reported as on_connected()
    ended_.push_back(&stream);
    return true;
  }
  update_interest(stream);
  return true;
}

void EpollReactor::start_receive(Stream& stream) {
  stream.receiving_ = true;
  if (!stream.ended_ && !stream.closing_) update_interest(stream);
}

void EpollReactor::stop_receive(Stream& stream) {
  stream.receiving_ = false;
  if (!stream.closing_) update_interest(stream);
}

void EpollReactor::update_interest(Stream& stream) {
  const bool reads = stream.receiving_ && !stream.ended_;
  const bool writes = (stream.sending_ && !stream.broken_) || stream.connecting_;
  const auto wanted = static_cast<std::uint8_t>((reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U));
  if (wanted == stream.interest_) return;
  // A socket with no interest is taken out: a broken one would be reported for ever.
  const int operation = stream.interest_ == 0 ? EPOLL_CTL_ADD
                        : wanted == 0         ? EPOLL_CTL_DEL
                                              : EPOLL_CTL_MOD;
  epoll_event event{};
  event.events = wanted;
  event.data.ptr = &stream;
  CHECK(epoll_ctl(epoll_fd_, operation, stream.fd_, &event) == 0);
  stream.interest_ = wanted;
}

std::size_t EpollReactor::send(Stream& stream, std::span<const iovec> bytes) {
  CHECK(!stream.sending_ && !stream.closing_);
  stats_.sends.add();
  const ssize_t sent = send_now(stream.fd_, bytes);
  if (sent >= 0) {
    stats_.sent_bytes.add(static_cast<std::uint64_t>(sent));
    return static_cast<std::size_t>(sent);
  }
  stream.sending_ = true;
  if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) {
    update_interest(stream);
  } else {
    queue_end(stream, errno);
  }
  return kInFlight;
}

void EpollReactor::close(Stream& stream) {
  CHECK(!stream.closing_);
  stream.closing_ = true;
  stream.cut_short_ = stream.sending_;
  stream.receiving_ = stream.sending_ = stream.connecting_ = false;
  std::erase(ended_, &stream);
  if (stream.fd_ >= 0) {
    update_interest(stream);
    ::close(stream.fd_);
  }
  stream.fd_ = -1;
  closed_.push_back(&stream);
}

void EpollReactor::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof(one));
}

void EpollReactor::turn(const Wait& wanted) {
  stats_.turns.add();
  Wait wait = wanted;
  if (!paused_.empty()) wait.deadline = std::min(wait.deadline, accept_again_at_);
  if (!closed_.empty() || !ended_.empty()) wait.deadline = 0;
  const std::size_t count = wait_for_events(wait);
  set_now(monotonic_now());
  stats_.events.add(count);
  report_ends();
  for (std::size_t i = 0; i < count; ++i) dispatch(events_[i]);
  resume_accepting();
  report_closed();
}

// epoll has no minimum wait, so a turn that is to wait for a batch sleeps first.
std::size_t EpollReactor::wait_for_events(const Wait& wait) {
  const Nanos now = monotonic_now();
  ticker_.update(now, wait.busy);
  Nanos left = std::max<Nanos>(wait.deadline - now, 0);
  if (left > 0 && wait.batch_wait > 0) {
    sleep_for(std::min(left, wait.batch_wait));
    left = std::max<Nanos>(left - wait.batch_wait, 0);
  }
  constexpr Nanos kLongest = 999'999'999;
  const timespec timeout{0, std::min(left, kLongest)};
  const bool limited = left == 0 || !ticker_.covers(left);
  stats_.enters.add();
  const int count =
      epoll_pwait2(epoll_fd_, events_.data(), kEventsMax, limited ? &timeout : nullptr, nullptr);
  if (wait.asleep != nullptr) wait.asleep->store(false, std::memory_order_relaxed);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

void EpollReactor::dispatch(const epoll_event& event) {
  if (event.data.u64 <= kDescriptorsMax) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(event.data.fd, &count, sizeof(count));
    return;
  }
  if ((event.data.u64 & kListenerBit) != 0) {
    return accept_some(*reinterpret_cast<Listener*>(event.data.u64 & ~kListenerBit));
  }
  Stream& stream = *static_cast<Stream*>(event.data.ptr);
  const bool broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
  if ((event.events & EPOLLOUT) != 0 || broken) writable(stream);
  if (((event.events & EPOLLIN) != 0 || broken) && stream.receiving_ && !stream.closing_) {
    receive(stream);
  }
}

void EpollReactor::accept_some(Listener& listener) {
  for (int i = 0; i < kAcceptsPerEvent && listener.wanted_; ++i) {
    const int fd = ::accept4(listener.fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      listener.on_accepted(fd);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // Out of descriptors or memory: the backlog waits.
    stats_.accept_pauses.add();
    watch_listener(listener, EPOLL_CTL_DEL);
    paused_.push_back(&listener);
    accept_again_at_ = now() + kAcceptPause;
    return;
  }
}

void EpollReactor::receive(Stream& stream) {
  const ssize_t got = ::recv(stream.fd_, buffer_.get(), kReceiveBytes, MSG_DONTWAIT);
  if (got > 0) {
    stats_.receives.add();
    stats_.received_bytes.add(static_cast<std::uint64_t>(got));
    return stream.on_data({buffer_.get(), static_cast<std::size_t>(got)});
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const int error = got == 0 ? 0 : errno;
  if (error != 0) return queue_end(stream, error);
  stream.receiving_ = false;
  stream.ended_ = true;
  update_interest(stream);
  stream.on_end(0);
}

void EpollReactor::writable(Stream& stream) {
  if (stream.connecting_) {
    stream.connecting_ = false;
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(stream.fd_, SOL_SOCKET, SO_ERROR, &error, &length);
    update_interest(stream);
    return stream.on_connected(error);
  }
  if (!stream.sending_ || stream.broken_) return;
  stream.sending_ = false;
  stream.on_sent(0);
  if (!stream.closing_) update_interest(stream);
}

void EpollReactor::queue_end(Stream& stream, int error) {
  if (std::exchange(stream.broken_, true)) return;
  stream.ended_ = true;
  stream.end_error_ = error;
  update_interest(stream);
  ended_.push_back(&stream);
}

void EpollReactor::report_ends() {
  std::vector<Stream*> ended;
  ended.swap(ended_);
  for (Stream* stream : ended) {
    if (stream->closing_) continue;
    if (std::exchange(stream->connecting_, false)) {
      stream->on_connected(stream->end_error_);
    } else {
      stream->receiving_ = false;
      stream->on_end(stream->end_error_);
    }
  }
}

void EpollReactor::report_closed() {
  // A handler may close further streams; those are reported in the next turn.
  std::vector<Stream*> closed;
  closed.swap(closed_);
  for (Stream* stream : closed) {
    stream->closing_ = stream->ended_ = stream->broken_ = false;
    if (std::exchange(stream->cut_short_, false)) stream->on_sent(0);
    stream->on_closed();
  }
}

void EpollReactor::resume_accepting() {
  if (paused_.empty() || now() < accept_again_at_) return;
  for (Listener* listener : paused_) watch_listener(*listener, EPOLL_CTL_ADD);
  paused_.clear();
}

}  // namespace penstock::net
