// Pipes of one worker: for each node, protocol and lane one, made when it is first needed.
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

  // A node, under an index of the caller's choice that no other node has now; before its first
  // get().
  void set_node(std::uint16_t index, const net::HostPort& address);
  // It is gone: requests that were not sent come back, and its pipes close as soon as they are
  // idle. The index is free at once.
  void remove_node(std::uint16_t index);
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

  // Requests that wait for a connection that does not come are given back: there is a new map.
  void return_stuck();
  // Sends what was appended in this turn.
  void flush();
  void tick();
  void for_each_of(std::uint16_t index, const std::function<void(Pipe&)>& visit);
  void for_each(const std::function<void(Pipe&)>& visit);

  // Closes every connection now; is_closed() tells when the kernel is done with them.
  void close_all();
  bool is_closed();

  std::size_t outstanding() const { return context_.outstanding; }

 private:
  std::size_t place_of(std::uint16_t index, resp::Protocol protocol, std::size_t lane) const {
    return (std::size_t{index} * 2 + (protocol == resp::Protocol::resp3 ? 1 : 0)) * lanes_ + lane;
  }
  void retire_leaving();
  void make_pipe(std::uint16_t index, resp::Protocol protocol, std::size_t place);

  PipeContext& context_;
  std::size_t lanes_;
  Micros last_tick_ = 0;
  bool ticked_ = false;  // true once last_tick_ means something
  std::vector<std::unique_ptr<net::HostPort>> addresses_;  // by node index; null: no such node
  std::vector<std::unique_ptr<Pipe>> pipes_;               // by node index, protocol and lane
  std::vector<std::unique_ptr<Pipe>> leaving_;             // of nodes that are gone
};

}  // namespace penstock::backend
