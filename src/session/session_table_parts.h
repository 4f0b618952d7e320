// What a session table is made of. For the files of the session table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/session/session_table.h"
#include "session/dispatcher.h"
#include "session/fan_out.h"
#include "session/own_writes.h"
#include "session/read_names.h"
#include "session/redirector.h"
#include "session/session_context.h"
#include "session/session_index.h"
#include "session/shared_reads.h"

namespace penstock::session {

struct SessionTable::Parts {
  Parts(SessionServices given, backend::ReplySink& sink);
  ~Parts() { services.cache.grace().end(services.worker); }

  // What pipes read is kept coherent; `worker`: whose own pipes, or nobody's.
  std::function<std::shared_ptr<backend::PipeObserver>(backend::Pipe&)> tracker_maker(
      backend::PipeContext& of, std::optional<std::uint16_t> worker);

  SessionServices services;
  ReadNames read_names;
  backend::PipeContext pipe_context;
  backend::PipePool pipes;
  backend::PipeContext shared_context;
  sharding::SharedPipes shared;
  SessionContext context;
  SessionIndex sessions;
  Dispatcher dispatcher;
  Redirector redirector;
  FanOutPool fan_outs;
  OwnWrites own_writes;
  SharedReads shared_reads;
  std::uint32_t cache_period = 0;
  bool cache_settled = true;
  std::vector<backend::ReplyToken> unnoted{};  // last requests of before the cache was on
  net::Nanos next_tick = 0;
  std::size_t sweep_at = 0;
  std::uint64_t ticks = 0;
  bool draining = false;
  bool closing = false;  // everything is being closed; a new map would revive the pipes
  std::size_t most_bytes = 0;  // of all blocks, since memory was last given back
};

}  // namespace penstock::session
