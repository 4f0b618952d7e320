// The io_uring back end: multishot accept and receive into provided buffers, one enter per turn.
// SINGLE_ISSUER and DEFER_TASKRUN (or at least COOP_TASKRUN): never a ring that interrupts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <liburing.h>

#include <deque>
#include <memory>
#include <vector>

#include "net/buffer_ring.h"
#include "net/ticker.h"
#include "penstock/net/reactor.h"

namespace penstock::net {

class UringReactor final : public Reactor {
 public:
  explicit UringReactor(const ReactorOptions& options);
  ~UringReactor() override;

  std::string_view name() const override { return "io_uring"; }
  void listen(Listener& listener) override;
  void stop_listening(Listener& listener) override;
  void adopt(Stream& stream, int fd) override;
  bool connect(Stream& stream, const Address& address) override;
  void start_receive(Stream& stream) override;
  void stop_receive(Stream& stream) override;
  std::size_t send(Stream& stream, std::span<const iovec> bytes) override;
  void close(Stream& stream) override;
  void wake() override;
  void wake_other(Reactor& other) override;
  void turn(const Wait& wait) override;

 private:
  enum class Operation : std::uint8_t { receive, send, connect, cancel, accept, wake, tick, knock };
  // A send that had to wait for room, kept until it was submitted.
  struct Message {
    msghdr header;
    iovec pieces[16];
  };

  void create_ring();
  void set_up_wake();
  io_uring_sqe* next_entry(Operation operation, void* owner);
  void arm_receive(Stream& stream);
  void arm_accept(Listener& listener);
  void arm_wake();
  void arm_tick();
  void cancel(void* owner, Operation operation);

  void enter(const Wait& wait);
  unsigned flush_entries();
  void reap();
  void complete(const io_uring_cqe& cqe);
  void complete_receive(Stream& stream, const io_uring_cqe& cqe);
  void complete_send(Stream& stream, int result);
  void complete_connect(Stream& stream, int result);
  void complete_knock(UringReactor* other, int result);
  void resume_accepting();
  void complete_accept(Listener& listener, const io_uring_cqe& cqe);
  void end(Stream& stream, int error);
  void finish_close(Stream& stream);
  void report_closed();
  void rearm_starved();

  ReactorOptions options_;
  io_uring ring_{};
  std::unique_ptr<BufferRing> client_buffers_;
  std::unique_ptr<BufferRing> node_buffers_;
  int wake_fd_ = -1;
  std::uint64_t wake_count_ = 0;        // where the wake-up read puts its number
  Ticker ticker_;
  std::uint64_t tick_count_ = 0;        // where the tick's read puts its number
  unsigned enter_flags_ = 0;
  bool can_wait_for_more_ = false;      // the kernel knows the minimum wait
  std::deque<Message> messages_;        // used since the last enter: the first `messages_used_`
  std::size_t messages_used_ = 0;
  std::vector<Stream*> starved_;        // wait for a free buffer
  std::vector<Stream*> closed_;         // on_closed() is due
  std::vector<Listener*> paused_;       // wait for free descriptors
  Nanos accept_again_at_ = 0;
};

}  // namespace penstock::net
