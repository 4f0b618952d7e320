// One worker's side of the shared pipes: one pipe per node, protocol and lane for the process, each
// owned by one worker. Requests for pipes of other workers go over in batches, once per turn, and
// their replies come back the same way; the owner is woken only if it sleeps.
//
//      session -> Outlet -> [ own pool | way to the owner ] ... owner's pool -> node
//      session <- take_mail() <- way back <- on_reply() of the owner's pipe
//
// Belongs to one worker, and is the sink of the shared pipes that this worker owns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "penstock/backend/pipe_pool.h"
#include "penstock/backend/reply_sink.h"
#include "penstock/cluster/router.h"
#include "penstock/sharding/exchange.h"
#include "penstock/sharding/owner_plan.h"
#include "penstock/stats/worker_stats.h"

namespace penstock::sharding {

class Outlet;
struct Record;

class SharedPipes final : public backend::ReplySink {
 public:
  // `context`: for the pipes that this worker owns; its sink must be this object. `sessions` gets
  // the replies to this worker's own requests.
  SharedPipes(Exchange& exchange, std::uint16_t worker, backend::PipeContext& context,
              std::size_t lanes, backend::ReplySink& sessions, stats::WorkerStats& stats);
  SharedPipes(const SharedPipes&) = delete;
  SharedPipes& operator=(const SharedPipes&) = delete;
  ~SharedPipes() override;

  // The plan that belongs to the map the router has just taken over.
  void on_topology(std::shared_ptr<const OwnerPlan> plan, const cluster::Router& router);

  // Where a request for a node of the map goes.
  Outlet outlet(cluster::NodeIndex node, resp::Protocol protocol, cluster::Slot slot);

  // Before a wait: says that this worker sleeps, so that others wake it. What is to be set to false
  // as soon as the wait is over; null: it may not sleep, because there is mail.
  std::atomic<bool>* fall_asleep();
  // Takes in what other workers have handed over: requests for its pipes, replies to its requests.
  void take_mail();
  // Hands over what has gathered; once per turn.
  void publish();
  void flush() { pool_.flush(); }
  // Time-outs and what the other workers are told; about every ten milliseconds.
  void tick();

  // When publish() is due again, because a way was full; INT64_MAX: none was.
  net::Nanos next_due() const;
  // Unanswered requests: in pipes of this worker, and handed over to others.
  std::size_t outstanding() const { return in_pipes() + handed_over_; }
  std::size_t in_pipes() const { return pool_.outstanding(); }
  // Bytes of what is handed over; trim() gives back what was not used since the last time.
  std::size_t memory() const;
  void trim();
  void for_each(const std::function<void(backend::Pipe&)>& visit) { pool_.for_each(visit); }
  void close_all() { pool_.close_all(); }
  bool is_closed() { return pool_.is_closed(); }

  // Of the owner's pipes; each goes to the worker that asked.
  void on_reply(const backend::ReplyToken& token, std::string_view frame,
                const backend::RequestTimes& times, const net::HostPort& node) override;
  void on_error(const backend::ReplyToken& token, std::string_view frame,
                const backend::TakenRequest& request, const net::HostPort& node) override;
  void on_reply_piece(const backend::ReplyToken& token, std::string_view piece, bool last,
                      const net::HostPort& node) override;
  void on_lost(const backend::ReplyToken& token, backend::Lost why,
               const backend::TakenRequest& request, const net::HostPort& node,
               std::string_view trouble) override;

 private:
  friend class Outlet;

  // Where the shared pipes of one of the router's nodes are.
  struct Route {
    SharedNode node;
    std::uint16_t owner = 0;
    NodeSigns* signs = nullptr;  // null: the plan does not know the node
  };

  bool take_batch(std::string_view batch, std::uint16_t from);
  bool take_record(const Record& record, std::string_view bytes, std::uint16_t from);
  void take_request(const Record& record, std::string_view frame, net::Block* block,
                    std::uint16_t from);
  void take_reply(const Record& record, std::string_view frame, std::string_view request);
  void send_back(const backend::ReplyToken& token, Record record, std::string_view frame,
                 std::string_view request);
  bool publish_to(std::size_t worker);
  void hold_reading();
  void tell_signs();
  SharedNode shared_node(const net::HostPort& node) const;
  char* reserve(std::uint16_t owner, std::size_t size);
  void commit(Record record, const Route& route, std::size_t size, std::size_t block_bytes = 0);

  Exchange& exchange_;
  const std::uint16_t worker_;
  backend::PipeContext& context_;
  backend::PipePool pool_;  // by place in the plan
  backend::ReplySink& sessions_;
  stats::WorkerStats& stats_;
  std::shared_ptr<const OwnerPlan> plan_ = std::make_shared<OwnerPlan>();
  std::vector<Route> routes_;             // by the router's node index
  std::vector<SharedNode> nodes_;         // by place
  std::vector<net::HostPort> addresses_;  // by place, the last one known
  std::vector<std::size_t> taken_;        // by worker: bytes taken of the batch at the front
  std::size_t handed_over_ = 0;           // requests that other workers have not answered
  bool reading_held_ = false;  // true while some worker does not take its replies
};

// Where a request leaves this worker: through a pipe of its own, or over to the worker that owns
// the shared one. Good for one request, within one call.
class Outlet {
 public:
  explicit Outlet(backend::Pipe& pipe) : pipe_(&pipe) {}

  // What is known of the connection. Of another worker's pipe that is what its owner last told.
  enum class Standing : std::uint8_t { ready, untried, troubled, unreachable };
  Standing standing() const;

  // False when so much waits already that the caller must stop reading its client.
  bool has_room() const;
  // The pipe, or null when another worker has it.
  backend::Pipe* pipe() const { return pipe_; }
  // True when the request would fail at once. Another worker's pipe tells by its reply.
  bool is_unreachable() const { return pipe_ != nullptr && pipe_->is_unreachable(); }

  void append(const backend::ReplyToken& token, std::string_view frame,
              const backend::RequestTimes& times);
  // Takes the block, too.
  void append(const backend::ReplyToken& token, net::Block* frame,
              const backend::RequestTimes& times);
  // Room for a request of `size` bytes, to be written in place and then appended with commit().
  char* reserve(std::size_t size);
  void commit(const backend::ReplyToken& token, std::size_t size,
              const backend::RequestTimes& times);

 private:
  friend class SharedPipes;
  Record record_of(const backend::ReplyToken& token, const backend::RequestTimes& times) const;
  Outlet(SharedPipes& shared, const SharedPipes::Route& route, resp::Protocol protocol,
         cluster::Slot slot)
      : shared_(&shared), route_(&route), protocol_(protocol), slot_(slot) {}

  backend::Pipe* pipe_ = nullptr;
  SharedPipes* shared_ = nullptr;
  const SharedPipes::Route* route_ = nullptr;
  resp::Protocol protocol_ = resp::Protocol::resp2;
  cluster::Slot slot_ = cluster::kNoSlot;
};

}  // namespace penstock::sharding
