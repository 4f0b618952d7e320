// A reactor whose sockets are wires of a simulated world and whose time is that world's.
// As unkind as the kernel may be: sends are cut short or stay in flight, receives come in pieces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "penstock/net/reactor.h"
#include "simulation/wire.h"


namespace penstock::net {

class SimulatedReactor final : public Reactor {
 public:
  using Wire = simulation::Wire;
  // Makes the wire to whoever listens at an address; null: refused.
  using Dial = std::function<std::shared_ptr<Wire>(const Address&)>;

  SimulatedReactor(simulation::World& world, Dial dial) : world_(world), dial_(std::move(dial)) {
    set_now(world.now());
  }

  std::string_view name() const override { return "simulated"; }
  void listen(Listener&) override {}
  void stop_listening(Listener&) override {}
  void wake() override {}

  // Announces a wire for the descriptor that adopt() will be called with.
  int make_descriptor(std::shared_ptr<Wire> wire) {
    wires_[++last_descriptor_] = std::move(wire);
    return last_descriptor_;
  }

  void adopt(Stream& stream, int fd) override {
    stream.fd_ = fd;
    attach(stream);
  }

  bool connect(Stream& stream, const Address& address) override {
    std::shared_ptr<Wire> wire = dial_(address);
    stream.fd_ = make_descriptor(wire == nullptr ? nullptr : wire);
    stream.connecting_ = true;
    const int fd = stream.fd_;
    world_.after(world_.pick(20, 2000) * simulation::kMicrosecond, [this, &stream, fd] {
      if (!owns(stream, fd) || !stream.connecting_) return;
      stream.connecting_ = false;
      const auto& found = wires_[fd];
      if (found == nullptr || !found->is_open()) return stream.on_connected(ECONNREFUSED);
      attach(stream);
      stream.on_connected(0);
    });
    return true;
  }

  void start_receive(Stream& stream) override {
    stream.receiving_ = true;
    const int fd = stream.fd_;
    world_.after(0, [this, &stream, fd] { deliver_kept(stream, fd); });
  }
  void stop_receive(Stream& stream) override { stream.receiving_ = false; }

  std::size_t send(Stream& stream, std::span<const iovec> bytes) override;
  void close(Stream& stream) override;

  // Runs events until one has happened or the deadline has passed.
  void turn(const Wait& wait) override {
    stats_.turns.add();
    const Nanos deadline = std::max(wait.deadline, world_.now());
    if (world_.step(deadline)) {
      // A turn handles what is there: often more than one event.
      while (world_.chance(60) && world_.step(world_.now() + 20 * simulation::kMicrosecond)) {
      }
    }
    set_now(world_.now());
  }

 private:
  // Descriptors are never used again, so one that is gone means that the stream may be, too.
  bool owns(const Stream& stream, int fd) const {
    return wires_.contains(fd) && stream.fd_ == fd && !stream.closing_;
  }
  void attach(Stream& stream);
  void deliver_kept(Stream& stream, int fd);

  simulation::World& world_;
  Dial dial_;
  int last_descriptor_ = 1'000'000;  // no real descriptor is as large
  std::unordered_map<int, std::shared_ptr<Wire>> wires_;
  std::unordered_map<int, std::string> kept_;  // arrived while the stream did not want bytes
};

}  // namespace penstock::net
