// The bends of the straight line: requests that a node refused with MOVED, ASK, TRYAGAIN,
// CLUSTERDOWN, LOADING, READONLY or MASTERDOWN, requests whose connection was lost, and requests
// whose slot nobody owns. What provably did not run is tried again until backend.retry_deadline;
// everything else becomes one clear error. A client never sees a redirect.
// Belongs to one worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/pipe_pool.h"
#include "session/redirect_reply.h"
#include "session/session.h"
#include "session/session_context.h"
#include "session/session_index.h"

namespace penstock::session {

class Redirector {
 public:
  Redirector(SessionContext& context, SessionIndex& sessions)
      : context_(context), sessions_(sessions), hole_since_(context.reactor.now()) {}

  // An error reply: true when it was a refusal that is dealt with here.
  bool absorb(Session& session, const backend::ReplyToken& token, std::string_view frame,
              const net::HostPort& node, const backend::TakenRequest& request);
  void on_lost(const backend::ReplyToken& token, backend::Lost why,
               const backend::TakenRequest& request, const net::HostPort& node,
               std::string_view trouble);

  // The slot of a new request has no owner: it waits for one, or fails at once when the slot has
  // been without one for longer than a request may wait.
  void await_owner(Session& session, std::uint32_t sequence, std::string_view frame,
                   const backend::RequestTimes& times, cluster::Slot slot);
  void fail_unreachable(const backend::ReplyToken& token, const backend::Pipe& pipe);
  void fail_without_master(const backend::ReplyToken& token);

  // Sends every part of the split command at `sequence`.
  void send_parts(Session& session, std::uint32_t sequence, const resp::Request& request,
                  const backend::RequestTimes& times);
  // A part's reply, or a piece of it.
  void part_reply(Session& session, const backend::ReplyToken& token, std::string_view piece,
                  bool last, const net::HostPort& node);

  // The way to some master that is up, if there is one.
  std::optional<sharding::Outlet> any_master(Session& session);

  // Delivers a text to whoever the token belongs to, if he is still there.
  void answer(const backend::ReplyToken& token, std::string_view text);

  void on_new_topology();
  // Sends what is due; called once in every turn.
  void run_due();
  // When run_due() has something to do at the latest; INT64_MAX: nothing waits.
  net::Nanos next_due() const;

 private:
  static constexpr net::Nanos kMillisecond = 1'000'000;
  // Between two looks for the owner of a slot that has none.
  static constexpr net::Nanos kOwnerPause = 20 * kMillisecond;

  // A request between two attempts.
  struct Waiting {
    backend::ReplyToken token;
    std::string bytes;
    backend::RequestTimes times;
    cluster::Slot slot;
    cluster::NodeIndex asked;  // ASK named this node; kNoNode: follow the map
    net::Nanos due;
  };

  bool follow(Session& session, const backend::ReplyToken& token, std::string_view frame,
              const net::HostPort& asked, const backend::TakenRequest& request, Refusal refusal);
  bool adopt_slot(Session& session, const backend::ReplyToken& token, cluster::Slot slot);
  void count(Refusal refusal);
  void try_again(const backend::ReplyToken& token, std::string_view bytes,
                 backend::RequestTimes times, cluster::Slot slot, cluster::NodeIndex asked,
                 net::Nanos delay);
  void send_part(const FanOut& fan_out, std::size_t part, const resp::Request& request,
                 sharding::Outlet& outlet, const backend::ReplyToken& token,
                 const backend::RequestTimes& times);
  bool send(Waiting& waiting);
  bool send_to(sharding::Outlet outlet, const Waiting& waiting);
  bool split_further(Session& session, const backend::ReplyToken& token,
                     const backend::TakenRequest& request);
  void fail(const backend::ReplyToken& token, std::string_view error, const std::string& address);
  void fail_hole(const backend::ReplyToken& token);
  std::string hole_error() const;
  bool deadline_passed(const backend::RequestTimes& times) const;
  bool hole_is_old() const;
  bool note_cluster_down();
  cluster::Slot slot_of(Session& session, const backend::ReplyToken& token) const;

  SessionContext& context_;
  SessionIndex& sessions_;
  std::vector<Waiting> waiting_;  // in the order of arrival
  std::size_t next_master_ = 0;
  net::Nanos hole_since_;                  // since when the map has not covered all slots
  bool covered_ = false;                   // true exactly when it covers them all
  net::Nanos down_since_ = 0;              // first and last CLUSTERDOWN of the current incident
  net::Nanos down_last_ = INT64_MIN / 2;
};

}  // namespace penstock::session
