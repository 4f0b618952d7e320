// Where a pipe's replies go: to the session layer, or to another worker's. The pipe knows no more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "penstock/backend/reply_token.h"
#include "penstock/net/address.h"

namespace penstock::backend {

// Times of requests: microseconds of the worker's clock, modulo 2^32; compare differences only.
using Micros = std::uint32_t;

// What a pipe's observer wants to know of a request; see pipe_observer.h.
enum class Watch : std::uint8_t {
  none,
  read,         // a read whose reply may be kept
  passing,      // a read whose reply is not to be kept, of a key that may be
  own_write,    // a write whose value may be kept
  companion,    // sent by the observer with one of these, or for itself: nobody else gets its reply
};

// What a pipe remembers of a request besides its bytes.
struct RequestTimes {
  Micros begun = 0;            // when the client's bytes were read, kept over retries
  Micros queued = 0;           // when this pipe took it
  std::uint8_t attempts = 0;   // how often it was sent somewhere before
  bool repeatable = false;     // a read: may be sent again although its outcome is unknown
  Watch watch = Watch::none;   // on this connection; a request that is sent again is not watched
};

// A request that a pipe took; the bytes are good for the call only.
struct TakenRequest {
  std::string_view bytes;
  RequestTimes times;
};

// Why a request comes back without a reply.
enum class Lost : std::uint8_t {
  outcome_unknown,  // the connection broke after it was sent
  cut_short,        // it stopped in the middle of a reply, pieces of which were passed on
  timed_out,        // the node did not answer in time; its late reply will be dropped
  not_sent,         // no connection within the deadline; it did not run
  returned,         // the pipe gives it up unsent, to be routed anew
};

// `node`: where the pipe leads to. Nothing may be appended to the pipe that calls.
class ReplySink {
 public:
  virtual ~ReplySink() = default;

  // One whole reply that is no error.
  virtual void on_reply(const ReplyToken& token, std::string_view frame,
                        const RequestTimes& times, const net::HostPort& node) = 0;
  // One whole error reply ("-..."), and the request that it answers.
  virtual void on_error(const ReplyToken& token, std::string_view frame,
                        const TakenRequest& request, const net::HostPort& node) = 0;
  // A piece of a large reply, in order; after the last piece the request is answered.
  virtual void on_reply_piece(const ReplyToken& token, std::string_view piece, bool last,
                              const net::HostPort& node) = 0;
  // `trouble`: why there is no connection, if that is why.
  virtual void on_lost(const ReplyToken& token, Lost why, const TakenRequest& request,
                       const net::HostPort& node, std::string_view trouble) = 0;
};

}  // namespace penstock::backend
