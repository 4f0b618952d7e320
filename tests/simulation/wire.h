// A simulated TCP connection between a stream of the proxy and a peer (a client or a node).
// Bytes arrive in order, late, and cut into pieces at random.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "simulation/world.h"

namespace penstock::simulation {

// The far end of a wire.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual void on_bytes(std::string_view bytes) = 0;
  virtual void on_cut() = 0;
};

class Wire : public std::enable_shared_from_this<Wire> {
 public:
  Wire(World& world, Peer& peer) : world_(world), peer_(&peer) {}

  // Towards the peer, and from it. Each direction keeps its order.
  void send_to_peer(std::string_view bytes) { send(bytes, true); }
  void send_to_proxy(std::string_view bytes) { send(bytes, false); }

  // What the proxy's end does with arriving bytes and with the end of the connection.
  std::function<void(std::string_view)> to_proxy;
  std::function<void(int error)> proxy_end;

  // The peer vanishes: what is on its way is lost, the proxy sees an error a little later.
  void cut_by_peer(int error) {
    if (!open_) return;
    open_ = false;
    peer_ = nullptr;
    world_.after(world_.pick(10, 500) * kMicrosecond, [self = shared_from_this(), error] {
      if (self->proxy_end) self->proxy_end(error);
    });
  }
  // The proxy closes: the peer sees it after the bytes that were sent before.
  void close_by_proxy() {
    to_proxy = nullptr;
    proxy_end = nullptr;
    if (!open_) return;
    const Nanos when = std::max(next_to_peer_, world_.now()) + kMicrosecond;
    world_.at(when, [self = shared_from_this()] {
      if (!self->open_) return;
      self->open_ = false;
      if (Peer* peer = std::exchange(self->peer_, nullptr)) peer->on_cut();
    });
  }
  bool is_open() const { return open_; }
  // The peer object is about to be destroyed.
  void forget_peer() { peer_ = nullptr; }

 private:
  void send(std::string_view bytes, bool to_peer) {
    while (!bytes.empty() && open_) {
      const auto size = static_cast<std::size_t>(
          world_.chance(70) ? static_cast<std::int64_t>(bytes.size())
                            : world_.pick(1, static_cast<std::int64_t>(bytes.size())));
      Nanos& next = to_peer ? next_to_peer_ : next_to_proxy_;
      next = std::max(next, world_.now()) + world_.pick(5, 200) * kMicrosecond;
      world_.at(next, [self = shared_from_this(), piece = std::string(bytes.substr(0, size)),
                       to_peer] { self->arrive(piece, to_peer); });
      bytes.remove_prefix(size);
    }
  }
  void arrive(const std::string& piece, bool to_peer) {
    if (!open_) return;
    if (to_peer && peer_ != nullptr) peer_->on_bytes(piece);
    if (!to_peer && to_proxy) to_proxy(piece);
  }

  World& world_;
  Peer* peer_;
  bool open_ = true;
  Nanos next_to_peer_ = 0;
  Nanos next_to_proxy_ = 0;
};

}  // namespace penstock::simulation
