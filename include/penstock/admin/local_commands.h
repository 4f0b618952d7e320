// The commands that the proxy answers itself: PING, HELLO, CLIENT, COMMAND, CONFIG, INFO,
// CLUSTER... One per worker, on its thread. Knows a client only as ClientState.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/admin/client_state.h"
#include "penstock/admin/server_view.h"
#include "penstock/command/command_table.h"
#include "penstock/resp/reply_writer.h"
#include "penstock/resp/request.h"

namespace penstock::admin {

// A command whose answer needs every worker: `collect` runs on each of them, `merge` on the one
// that was asked.
struct GatherJob {
  std::function<std::string(WorkerView&)> collect;
  std::function<std::string(const std::vector<std::string>&)> merge;
};

// One call of a local command.
struct LocalCall {
  const command::Command& command;
  const resp::Request& request;
  ClientState& client;
  int fd;                                // of the client, for its addresses
  bool shares_pipes;                     // as in ClientFacts
  resp::ReplyWriter reply;
  std::optional<GatherJob> gather = {};  // set instead of writing a reply
};

struct AdminContext;

class LocalCommands {
 public:
  LocalCommands(const ServerView& server, const command::CommandTable& commands);

  void run(LocalCall& call);

 private:
  using Handler = void (*)(LocalCall&, const AdminContext&);

  const ServerView& server_;
  const command::CommandTable& commands_;
  std::vector<Handler> handlers_;  // by command index
};

}  // namespace penstock::admin
