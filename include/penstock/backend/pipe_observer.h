// Somebody who looks at what passes through a pipe and may send requests of his own between those
// of users: with each watched request, and whenever the connection is up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "penstock/backend/reply_sink.h"

namespace penstock::backend {

class PipeObserver {
 public:
  virtual ~PipeObserver() = default;

  // The connection is there; the connection is gone, and with it what the node knew of it.
  virtual void on_up() = 0;
  virtual void on_down() = 0;
  virtual void on_push(std::string_view frame) = 0;

  // A request is about to be appended that is to be watched: before() may append companions in
  // front of it and says whether it is watched; after() may append some behind it.
  virtual bool before(std::string_view request, Watch watch) = 0;
  virtual void after(std::string_view request, Watch watch) = 0;
  // The reply to a watched request or a companion, in the order in which they were appended; an
  // empty one: there was one that nobody could look at whole. Nothing may be appended to this pipe.
  virtual void on_watched(Watch watch, std::string_view request, std::string_view reply) = 0;

  virtual void tick() = 0;
  // Closes what it has of its own; true once that is done.
  virtual bool retire() = 0;
};

}  // namespace penstock::backend
