// A worker's pipes: for each node, protocol and lane one, made when it is first needed.
// Belongs to one worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/backend/pipe.h"

namespace penstock::backend {

class PipePool {
 public:
  // `lanes`: connections per node and protocol.
  PipePool(PipeContext& context, std::size_t lanes) : context_(context), lanes_(lanes) {}

  // The node's address is set once per index, before the first get().
  void set_node(std::uint16_t index, const net::HostPort& address);
  bool has_node(std::uint16_t index) const {
    return index < addresses_.size() && addresses_[index] != nullptr;
  }

  // Requests with the same `key` (their slot) always meet in the same lane.
  Pipe& get(std::uint16_t index, resp::Protocol protocol, std::size_t key) {
    const std::size_t lane = lanes_ == 1 ? 0 : key % lanes_;
    const std::size_t place = place_of(index, protocol, lane);
    if (pipes_[place] == nullptr) [[unlikely]] make_pipe(index, protocol, place);
    return *pipes_[place];
  }

  // The same, or null when there is no such node or no pipe yet.
  Pipe* find(std::uint16_t index, resp::Protocol protocol, std::size_t key) {
    const std::size_t lane = lanes_ == 1 ? 0 : key % lanes_;
    const std::size_t place = place_of(index, protocol, lane);
    return place < pipes_.size() ? pipes_[place].get() : nullptr;
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
  std::size_t place_of(std::uint16_t index, resp::Protocol protocol, std::size_t lane) const {
    return (std::size_t{index} * 2 + (protocol == resp::Protocol::resp3 ? 1 : 0)) * lanes_ + lane;
  }
  void make_pipe(std::uint16_t index, resp::Protocol protocol, std::size_t place);

  PipeContext& context_;
  std::size_t lanes_;
  Micros last_tick_ = 0;
  bool ticked_ = false;  // true once last_tick_ means something
  std::vector<std::unique_ptr<net::HostPort>> addresses_;  // by node index; null: no such node
  std::vector<std::unique_ptr<Pipe>> pipes_;               // by node index, protocol and lane
};

}  // namespace penstock::backend
