// A worker's pipes: for each node, protocol and lane one, made when it is first needed.
// Belongs to one worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/backend/pipe.h"

namespace penstock::backend {

class PipePool {
 public:
  static constexpr std::size_t kLanesMax = 16;

  // `lanes`: connections per node and protocol.
  PipePool(PipeContext& context, std::size_t lanes) : context_(context), lanes_(lanes) {}

  // The node's address is set once per index, before the first get().
  void set_node(std::uint16_t index, const net::HostPort& address);
  bool has_node(std::uint16_t index) const {
    return index < nodes_.size() && nodes_[index] != nullptr;
  }

  // Requests with the same `key` (their slot) always meet in the same lane.
  Pipe& get(std::uint16_t index, resp::Protocol protocol, std::size_t key) {
    const std::size_t lane = lanes_ == 1 ? 0 : key % lanes_;
    std::unique_ptr<Pipe>& pipe =
        nodes_[index]->pipes[protocol == resp::Protocol::resp3 ? 1 : 0][lane];
    if (pipe == nullptr) [[unlikely]] pipe = make_pipe(index, protocol);
    return *pipe;
  }

  // True when every pipe of the node is closed; they are closed as soon as they are idle.
  bool retire_node(std::uint16_t index);

  // Sends what was appended in this turn.
  void flush();
  void tick();
  void for_each(const std::function<void(Pipe&)>& visit);

  // Closes every connection now; is_closed() tells when the kernel is done with them.
  void close_all();
  bool is_closed();

  std::size_t outstanding() const { return context_.outstanding; }

 private:
  struct Node {
    net::HostPort address;
    std::array<std::array<std::unique_ptr<Pipe>, kLanesMax>, 2> pipes;
  };

  std::unique_ptr<Pipe> make_pipe(std::uint16_t index, resp::Protocol protocol);

  PipeContext& context_;
  std::size_t lanes_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace penstock::backend
