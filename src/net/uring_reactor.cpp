// The io_uring back end.
// SPDX-License-Identifier: Apache-2.0
#include "net/uring_reactor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "net/send_now.h"
#include "net/uring_compat.h"
#include "net/uring_setup.h"
#include "penstock/log/check.h"

namespace penstock::net {
namespace {

constexpr std::uint16_t kClientGroup = 0;
constexpr std::uint16_t kNodeGroup = 1;

// An owner's pointer and the operation share the completion's 64 bits.
constexpr std::uintptr_t kOperationMask = 7;

}  // namespace

UringReactor::UringReactor(const ReactorOptions& options) : options_(options) {
  create_ring();
  try {
    client_buffers_ = std::make_unique<BufferRing>(ring_, kClientGroup, options.client_buffers,
                                                   options.client_buffer_bytes);
    node_buffers_ = std::make_unique<BufferRing>(ring_, kNodeGroup, options.node_buffers,
                                                 options.node_buffer_bytes);
    set_up_wake();
  } catch (...) {
    client_buffers_.reset();
    node_buffers_.reset();
    io_uring_queue_exit(&ring_);
    throw;
  }
}

UringReactor::~UringReactor() {
  client_buffers_.reset();
  node_buffers_.reset();
  io_uring_queue_exit(&ring_);
  ::close(wake_fd_);
}

void UringReactor::create_ring() {
  set_up_ring(ring_, options_);
  enter_flags_ = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
  if (io_uring_register_ring_fd(&ring_) == 1) enter_flags_ |= IORING_ENTER_REGISTERED_RING;
  if ((ring_.features & uring::kFeatureNoIowait) != 0) enter_flags_ |= uring::kEnterNoIowait;
  can_wait_for_more_ = (ring_.features & uring::kFeatureMinTimeout) != 0;
}

void UringReactor::set_up_wake() {
  wake_fd_ = eventfd(0, EFD_CLOEXEC);
  if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  arm_wake();
  arm_tick();
}

io_uring_sqe* UringReactor::next_entry(Operation operation, void* owner) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (entry == nullptr) {
    io_uring_submit(&ring_);
    entry = io_uring_get_sqe(&ring_);
  }
  std::memset(entry, 0, sizeof(*entry));
  entry->user_data = reinterpret_cast<std::uintptr_t>(owner) | static_cast<unsigned>(operation);
  return entry;
}

// prep functions clear user_data in some liburing versions, so it is set again after them.
#define PREPARE(operation, owner, function, ...)                                               \
  do {                                                                                         \
    io_uring_sqe* entry_ = next_entry(operation, owner);                                       \
    const auto data_ = entry_->user_data;                                                      \
    function(entry_, __VA_ARGS__);                                                             \
    entry_->user_data = data_;                                                                 \
  } while (false)

void UringReactor::arm_wake() {
  PREPARE(Operation::wake, nullptr, io_uring_prep_read, wake_fd_, &wake_count_,
          sizeof(wake_count_), 0);
}

void UringReactor::arm_tick() {
  PREPARE(Operation::tick, nullptr, io_uring_prep_read, ticker_.fd(), &tick_count_,
          sizeof(tick_count_), 0);
}

void UringReactor::adopt(Stream& stream, int fd) {
  CHECK(stream.fd_ < 0);
  stream.fd_ = fd;
}

bool UringReactor::connect(Stream& stream, const Address& address) {
  CHECK(stream.fd_ < 0);
  stream.fd_ = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (stream.fd_ < 0) return false;
  stream.connecting_ = true;
  ++stream.pending_;
  // The address is copied when the entry is submitted, which is before it can go out of scope.
  PREPARE(Operation::connect, &stream, io_uring_prep_connect, stream.fd_, address.get(),
          address.length);
  io_uring_submit(&ring_);
  return true;
}

void UringReactor::start_receive(Stream& stream) {
  stream.receiving_ = true;
  if (!stream.armed_ && !stream.ended_ && !stream.closing_) arm_receive(stream);
}

void UringReactor::stop_receive(Stream& stream) {
  if (stream.receiving_ && stream.armed_) cancel(&stream, Operation::receive);
  stream.receiving_ = false;
}

void UringReactor::arm_receive(Stream& stream) {
  const bool client = stream.kind_ == StreamKind::client;
  io_uring_sqe* entry = next_entry(Operation::receive, &stream);
  const auto data = entry->user_data;
  io_uring_prep_recv_multishot(entry, stream.fd_, nullptr, 0, 0);
  entry->user_data = data;
  entry->flags |= IOSQE_BUFFER_SELECT;
  entry->buf_group = client ? kClientGroup : kNodeGroup;
  stream.armed_ = true;
  ++stream.pending_;
}

void UringReactor::cancel(void* owner, Operation operation) {
  const auto target = reinterpret_cast<std::uintptr_t>(owner) | static_cast<unsigned>(operation);
  PREPARE(Operation::cancel, nullptr, io_uring_prep_cancel64, target, 0);
}

// Nearly every send finds room, and then a plain system call is as cheap as an entry and a
// completion, and the bytes are done with at once. Only what finds none goes through the ring.
std::size_t UringReactor::send(Stream& stream, std::span<const iovec> bytes) {
  CHECK(!stream.sending_ && !stream.closing_);
  stats_.sends.add();
  const ssize_t sent = send_now(stream.fd_, bytes);
  if (sent > 0) {
    stats_.sent_bytes.add(static_cast<std::uint64_t>(sent));
    return static_cast<std::size_t>(sent);
  }
  stream.sending_ = true;
  ++stream.pending_;
  if (messages_used_ == messages_.size()) messages_.emplace_back();
  Message& message = messages_[messages_used_++];
  const std::size_t pieces = std::min(bytes.size(), std::size(message.pieces));
  std::copy_n(bytes.begin(), pieces, message.pieces);
  message.header = {};
  message.header.msg_iov = message.pieces;
  message.header.msg_iovlen = pieces;
  PREPARE(Operation::send, &stream, io_uring_prep_sendmsg, stream.fd_, &message.header,
          MSG_NOSIGNAL);
  return kInFlight;
}

// A closed descriptor does not stop an armed receive, so everything is cancelled first.
void UringReactor::close(Stream& stream) {
  CHECK(!stream.closing_);
  stream.closing_ = true;
  stream.receiving_ = false;
  std::erase(starved_, &stream);
  if (stream.fd_ >= 0) ::shutdown(stream.fd_, SHUT_RDWR);
  if (stream.armed_) cancel(&stream, Operation::receive);
  if (stream.sending_) cancel(&stream, Operation::send);
  if (stream.connecting_) cancel(&stream, Operation::connect);
  finish_close(stream);
}

// Once the kernel holds nothing of the stream any more.
void UringReactor::finish_close(Stream& stream) {
  if (stream.pending_ > 0 || std::exchange(stream.released_, true)) return;
  if (stream.fd_ >= 0) ::close(stream.fd_);
  stream.fd_ = -1;
  closed_.push_back(&stream);
}

void UringReactor::report_closed() {
  // A handler may close further streams; those are reported in the next turn.
  std::vector<Stream*> closed;
  closed.swap(closed_);
  for (Stream* stream : closed) {
    stream->closing_ = stream->ended_ = stream->broken_ = stream->released_ = false;
    stream->on_closed();
  }
}

void UringReactor::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof(one));
}

// A completion in the other's ring, without a system call of its own: it goes with the next enter.
void UringReactor::wake_other(Reactor& other) {
  auto& target = static_cast<UringReactor&>(other);
  io_uring_sqe* entry = next_entry(Operation::knock, &target);
  const auto data = entry->user_data;
  io_uring_prep_msg_ring(entry, target.ring_.ring_fd, 0,
                         static_cast<std::uint64_t>(Operation::knock), 0);
  entry->user_data = data;
  entry->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

void UringReactor::turn(const Wait& wanted) {
  stats_.turns.add();
  Wait wait = wanted;
  if (!paused_.empty()) wait.deadline = std::min(wait.deadline, accept_again_at_);
  if (!closed_.empty()) wait.deadline = 0;
  enter(wait);
  set_now(monotonic_now());
  reap();
  client_buffers_->publish();
  node_buffers_->publish();
  rearm_starved();
  resume_accepting();
  report_closed();
}

// Submits what was prepared and waits. The kernel's minimum wait makes larger batches under load:
// it ends when there are enough events, or when the time is over and there is at least one.
void UringReactor::enter(const Wait& wait) {
  uring::EventsArgument argument;
  unsigned wait_for = 1;
  if (can_wait_for_more_ && wait.batch_wait > 0) {
    wait_for = wait.batch_events;
    argument.min_wait_usec = static_cast<std::uint32_t>(wait.batch_wait / 1000);
  }
  const Nanos now = monotonic_now();
  const Nanos left = std::max<Nanos>(wait.deadline - now, 0);
  ticker_.update(now, wait.busy);
  if (left == 0) wait_for = 0;
  __kernel_timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
  if (left > 0 && !ticker_.covers(left)) {
    argument.timespec = reinterpret_cast<std::uintptr_t>(&timeout);
  }
  const bool registered = (enter_flags_ & IORING_ENTER_REGISTERED_RING) != 0;
  stats_.enters.add();
  // EINTR, ETIME, EBUSY and EAGAIN all mean the same here: look at what there is, go round.
  io_uring_enter2(static_cast<unsigned>(registered ? ring_.enter_ring_fd : ring_.ring_fd),
                  flush_entries(), wait_for, enter_flags_,
                  reinterpret_cast<sigset_t*>(&argument), sizeof(argument));
  if (wait.asleep != nullptr) wait.asleep->store(false, std::memory_order_relaxed);
  // What was not submitted still points at its message.
  if (io_uring_sq_ready(&ring_) == 0) messages_used_ = 0;
}

// Makes prepared entries visible to the kernel, as liburing does before it enters.
unsigned UringReactor::flush_entries() {
  io_uring_sq& sq = ring_.sq;
  unsigned tail = *sq.ktail;
  for (; sq.sqe_head != sq.sqe_tail; ++sq.sqe_head, ++tail) {
    sq.array[tail & sq.ring_mask] = sq.sqe_head & sq.ring_mask;
  }
  io_uring_smp_store_release(sq.ktail, tail);
  return tail - io_uring_smp_load_acquire(sq.khead);
}

void UringReactor::reap() {
  unsigned head = 0;
  unsigned seen = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    complete(*cqe);
    ++seen;
  }
  io_uring_cq_advance(&ring_, seen);
  stats_.events.add(seen);
}

void UringReactor::complete(const io_uring_cqe& cqe) {
  void* const owner = reinterpret_cast<void*>(cqe.user_data & ~kOperationMask);
  switch (static_cast<Operation>(cqe.user_data & kOperationMask)) {
    case Operation::receive: return complete_receive(*static_cast<Stream*>(owner), cqe);
    case Operation::send: return complete_send(*static_cast<Stream*>(owner), cqe.res);
    case Operation::connect: return complete_connect(*static_cast<Stream*>(owner), cqe.res);
    case Operation::accept: return complete_accept(*static_cast<Listener*>(owner), cqe);
    case Operation::wake: return arm_wake();
    case Operation::tick: return arm_tick();
    case Operation::cancel: return;
    case Operation::knock:
      return complete_knock(static_cast<UringReactor*>(owner), cqe.res);
  }
}

void UringReactor::complete_receive(Stream& stream, const io_uring_cqe& cqe) {
  const bool more = (cqe.flags & IORING_CQE_F_MORE) != 0;
  if (!more) {
    stream.armed_ = false;
    --stream.pending_;
  }
  if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
    const auto id = static_cast<std::uint16_t>(cqe.flags >> IORING_CQE_BUFFER_SHIFT);
    BufferRing& buffers = stream.kind_ == StreamKind::client ? *client_buffers_ : *node_buffers_;
    if (cqe.res > 0 && !stream.closing_) {
      stats_.receives.add();
      stats_.received_bytes.add(static_cast<std::uint64_t>(cqe.res));
      stream.on_data({buffers.data(id), static_cast<std::size_t>(cqe.res)});
    }
    buffers.recycle(id);
  }
  if (stream.closing_) return finish_close(stream);
  if (cqe.res == -ENOBUFS) {
    stats_.buffers_exhausted.add();
    if (stream.receiving_) starved_.push_back(&stream);
  } else if (cqe.res == 0 || (cqe.res < 0 && cqe.res != -ECANCELED)) {
    end(stream, -cqe.res);
  } else if (!more && stream.receiving_) {
    arm_receive(stream);
  }
}

void UringReactor::complete_send(Stream& stream, int result) {
  stream.sending_ = false;
  --stream.pending_;
  const std::size_t sent = result > 0 ? static_cast<std::size_t>(result) : 0;
  stats_.sent_bytes.add(sent);
  stream.on_sent(sent);
  if (stream.closing_) return finish_close(stream);
  if (result < 0 && result != -EAGAIN && result != -EINTR) end(stream, -result);
}

void UringReactor::complete_connect(Stream& stream, int result) {
  stream.connecting_ = false;
  --stream.pending_;
  if (stream.closing_) return finish_close(stream);
  stream.on_connected(-result);
}

// Null: it was another one that knocked here, and all is done.
void UringReactor::complete_knock(UringReactor* other, int result) {
  if (other != nullptr && result < 0) other->wake();
}

void UringReactor::end(Stream& stream, int error) {
  stream.receiving_ = false;
  const bool known = error == 0 ? stream.ended_ : stream.broken_;
  stream.ended_ = true;
  stream.broken_ = stream.broken_ || error != 0;
  if (!known) stream.on_end(error);
}

void UringReactor::rearm_starved() {
  if (starved_.empty()) return;
  std::vector<Stream*> starved;
  starved.swap(starved_);
  for (Stream* stream : starved) {
    if (stream->receiving_ && !stream->armed_) arm_receive(*stream);
  }
}

}  // namespace penstock::net
