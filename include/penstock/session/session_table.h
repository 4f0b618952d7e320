// All client connections of one worker, their pipes to the nodes, and what happens once in a turn.
// The one door to this folder: the worker calls it, the pipes answer to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/admin/server_view.h"
#include "penstock/backend/reply_sink.h"
#include "penstock/cluster/topology.h"
#include "penstock/session/session_services.h"
#include "penstock/sharding/owner_plan.h"

namespace penstock::session {

struct Place;

// What clients did since the last time somebody asked.
struct Activity {
  std::size_t active_clients = 0;  // sent something
  std::uint64_t receives = 0;
};

class SessionTable final : public backend::ReplySink, public admin::WorkerView {
 public:
  explicit SessionTable(SessionServices services);
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;
  ~SessionTable() override;

  // Takes over a connected, non-blocking socket.
  void add_client(int fd, std::uint64_t id);
  std::size_t clients() const;

  // A new map, and which worker owns which of its nodes' shared pipes.
  void on_topology(std::shared_ptr<const cluster::Topology> topology,
                   std::shared_ptr<const sharding::OwnerPlan> plan);

  // As SharedPipes::fall_asleep().
  std::atomic<bool>* fall_asleep();
  // What other workers have handed over.
  void take_mail();

  // Between two waits: requests that may go on, then one send for each pipe and client with output.
  void end_turn();
  // How long the first replies of a pipeline may wait for the rest of it; 0: not at all.
  void hold_replies(net::Nanos at_most);
  // Time-outs, reconnects, idle clients; about every ten milliseconds.
  void tick();
  // When end_turn() has something to do at the latest; INT64_MAX: when something happens.
  net::Nanos next_due() const;
  // Requests that nodes have not answered.
  std::size_t outstanding() const;
  Activity take_activity();

  // Answers what is in flight, then closes every client.
  void drain();
  // Closes everything now.
  void close_all();
  // True when no client and no pipe is left open.
  bool is_closed();

  void on_reply(const backend::ReplyToken& token, std::string_view frame,
                const backend::RequestTimes& times, const net::HostPort& node) override;
  void on_error(const backend::ReplyToken& token, std::string_view frame,
                const backend::TakenRequest& request, const net::HostPort& node) override;
  void on_reply_piece(const backend::ReplyToken& token, std::string_view piece, bool last,
                      const net::HostPort& node) override;
  void on_lost(const backend::ReplyToken& token, backend::Lost why,
               const backend::TakenRequest& request, const net::HostPort& node,
               std::string_view trouble) override;

  void for_each_client(const std::function<void(const admin::ClientFacts&)>& visit) override;
  bool kill_client(std::uint64_t id) override;
  std::vector<admin::NodeReport> nodes() override;

 private:
  struct Parts;

  void note_backend_time(Place& place, const backend::RequestTimes& times);
  void release_held_replies();
  void sweep_clients();
  void give_back_memory();
  void enforce_memory_limit();
  void forget_moved_slots(const cluster::SlotOwners& before);
  void follow_cache();
  void look_after_cache();

  std::unique_ptr<Parts> parts_;
};

}  // namespace penstock::session
