// What the sessions of one worker share. Built by the session table; nothing here is a client's
// own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/admin/local_commands.h"
#include "penstock/backend/pipe_pool.h"
#include "penstock/cache/admission.h"
#include "penstock/cache/reply_cache.h"
#include "penstock/cluster/router.h"
#include "penstock/command/command_table.h"
#include "penstock/command/key_finder.h"
#include "penstock/config/config.h"
#include "penstock/net/block.h"
#include "penstock/net/reactor.h"
#include "penstock/resp/request_scanner.h"
#include "penstock/session/session_services.h"
#include "penstock/session/session_table.h"
#include "penstock/sharding/shared_pipes.h"
#include "penstock/stats/worker_stats.h"
#include "session/input.h"

namespace penstock::session {

class Dispatcher;
class FanOutPool;
class OwnWrites;
class Redirector;
class Session;
class SharedReads;

// A session whose first replies of a pipeline were held back at a time.
struct Holding {
  Session* session;
  net::Nanos since;
};

struct SessionContext {
  const SessionServices& services;
  net::Reactor& reactor;
  net::BlockPool& blocks;
  const config::Config& config;
  const command::CommandTable& commands;
  cluster::Router& router;
  backend::PipePool& pipes;
  sharding::SharedPipes& shared;
  stats::WorkerStats& stats;
  cache::ReplyCache& cache;

  Dispatcher* dispatcher = nullptr;
  Redirector* redirector = nullptr;
  FanOutPool* fan_outs = nullptr;
  OwnWrites* own_writes = nullptr;
  SharedReads* shared_reads = nullptr;
  std::function<void(std::uint32_t)> on_closed{};  // the kernel is done with a session

  resp::RequestScanner scanner{};          // of frames that are whole in a receive buffer
  std::vector<command::KeyPosition> keys{};  // of the command being dispatched
  std::string text{};                      // of a reply being written
  std::vector<Session*> dirty{};           // have something to send at the end of the turn
  std::vector<Session*> ready{};           // may go on with requests they had to leave
  std::vector<Session*> waiting{};         // wait for room in a pipe
  std::vector<Holding> holding{};          // have replies that wait for more, oldest first
  net::Nanos hold_replies = 0;             // for so long at most
  std::vector<std::unique_ptr<Input>> spare_inputs{};
  sharding::Mode mode = sharding::Mode::worker;  // which pipes sessions are to use
  bool caching = false;       // the reply cache is on, in this turn
  bool keeps_values = false;  // and it keeps what clients write
  std::uint16_t get_index = 0;  // of GET in the command table
  cache::Admission admission{cache::Admission::kOptin};
  std::vector<const cache::Entry*> kept{};  // of the MGET being dispatched
  Activity activity{};
  std::uint32_t period = 0;  // of the activity that is being counted

  backend::Micros now() const { return reactor.now_us(); }
};

}  // namespace penstock::session
