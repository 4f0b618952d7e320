// Where a pipe's replies go. Implemented by the session layer; the pipe knows no more of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "penstock/backend/reply_token.h"

namespace penstock::backend {

class Pipe;

// Times of requests: microseconds of the worker's clock, modulo 2^32; compare differences only.
using Micros = std::uint32_t;

// What a pipe remembers of a request besides its bytes.
struct RequestTimes {
  Micros begun = 0;            // when the client's bytes were read, kept over retries
  Micros queued = 0;           // when this pipe took it
  std::uint8_t attempts = 0;   // how often it was sent somewhere before
  bool repeatable = false;     // a read: may be sent again although its outcome is unknown
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

class ReplySink {
 public:
  virtual ~ReplySink() = default;

  // One whole reply. What it answers: from.answered(). Must not append to the pipe it came from.
  virtual void on_reply(const ReplyToken& token, std::string_view frame,
                        const RequestTimes& times, Pipe& from) = 0;
  // A piece of a large reply, in order; after the last piece the request is answered.
  virtual void on_reply_piece(const ReplyToken& token, std::string_view piece, bool last,
                              Pipe& from) = 0;
  virtual void on_lost(const ReplyToken& token, Lost why, Pipe& from,
                       const TakenRequest& request) = 0;
};

}  // namespace penstock::backend
