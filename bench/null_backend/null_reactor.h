// A reactor without sockets: streams are plain objects and every send is taken whole and at once.
// Shared by the null backend and the micro benchmarks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/net/reactor.h"

// The simulated reactor is the one stranger that net::Stream knows.
namespace penstock::net {

class SimulatedReactor : public Reactor {
 protected:
  static void set_descriptor(Stream& stream, int fd) { stream.fd_ = fd; }
  static void set_closing(Stream& stream) { stream.closing_ = true; }
};

}  // namespace penstock::net

namespace penstock::bench {

class NullReactor : public net::SimulatedReactor {
 public:
  std::string_view name() const override { return "null"; }
  void listen(net::Listener&) override {}
  void stop_listening(net::Listener&) override {}
  void wake() override {}
  void turn(const net::Wait&) override {}
  void start_receive(net::Stream&) override {}
  void stop_receive(net::Stream&) override {}
  void adopt(net::Stream& stream, int fd) override {
    set_descriptor(stream, fd);
    clients_.push_back(&stream);
  }
  bool connect(net::Stream& stream, const net::Address&) override {
    set_descriptor(stream, ++last_descriptor_);
    connecting_.push_back(&stream);
    return true;
  }
  std::size_t send(net::Stream& stream, std::span<const iovec> pieces) override {
    std::size_t size = 0;
    for (const iovec& piece : pieces) size += piece.iov_len;
    on_send(stream, pieces, size);
    return size;
  }
  void close(net::Stream& stream) override {
    set_descriptor(stream, -1);
    set_closing(stream);
    stream.on_closed();
  }

  const std::vector<net::Stream*>& clients() const { return clients_; }
  // Streams that wait for on_connected().
  std::vector<net::Stream*> take_connecting() { return std::exchange(connecting_, {}); }
  bool has_connecting() const { return !connecting_.empty(); }

 protected:
  virtual void on_send(net::Stream&, std::span<const iovec>, std::size_t /*size*/) {}
  static bool leads_to_node(const net::Stream& stream) { return stream.fd() > kFirstNode; }

 private:
  static constexpr int kFirstNode = 2'000'000;  // clients' descriptors are lower

  std::vector<net::Stream*> clients_, connecting_;
  int last_descriptor_ = kFirstNode;
};

}  // namespace penstock::bench
