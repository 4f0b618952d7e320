// The epoll back end: level-triggered, sends at once, waits for room only when a send was cut
// short.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/epoll.h>

#include <memory>
#include <vector>

#include "net/ticker.h"
#include "penstock/net/reactor.h"

namespace penstock::net {

class EpollReactor final : public Reactor {
 public:
  explicit EpollReactor(const ReactorOptions& options);
  ~EpollReactor() override;

  std::string_view name() const override { return "epoll"; }
  void listen(Listener& listener) override;
  void stop_listening(Listener& listener) override;
  void adopt(Stream& stream, int fd) override;
  bool connect(Stream& stream, const Address& address) override;
  void start_receive(Stream& stream) override;
  void stop_receive(Stream& stream) override;
  std::size_t send(Stream& stream, std::span<const iovec> bytes) override;
  void close(Stream& stream) override;
  void wake() override;
  void turn(const Wait& wait) override;

 private:
  void watch_own(int fd);
  void watch_listener(Listener& listener, int operation);
  void update_interest(Stream& stream);
  std::size_t wait_for_events(const Wait& wait);
  void dispatch(const epoll_event& event);
  void accept_some(Listener& listener);
  void receive(Stream& stream);
  void writable(Stream& stream);
  void queue_end(Stream& stream, int error);
  void report_ends();
  void report_closed();
  void resume_accepting();

  ReactorOptions options_;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  Ticker ticker_;
  std::unique_ptr<char[]> buffer_;      // one receive at a time
  std::vector<epoll_event> events_;
  std::vector<Stream*> ended_;          // on_end() is due
  std::vector<Stream*> closed_;         // on_closed() is due
  std::vector<Listener*> paused_;       // wait for free descriptors
  Nanos accept_again_at_ = 0;
};

}  // namespace penstock::net
