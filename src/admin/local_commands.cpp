// Finds the handler of a local command, and the helpers that handlers share.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/admin/local_commands.h"

#include <time.h>

#include "admin/handlers.h"
#include "penstock/log/check.h"

namespace penstock::admin {

LocalCommands::LocalCommands(const ServerView& server, const command::CommandTable& commands)
    : server_(server), commands_(commands), handlers_(commands.all().size(), nullptr) {
  for (const auto handlers : {connection_handlers(), client_handlers(), command_handlers(),
                              server_handlers(), cluster_handlers()}) {
    for (const NamedHandler& each : handlers) {
      const command::Command* command = commands.find_full(each.command);
      if (command != nullptr) handlers_[command->index] = each.handler;
    }
  }
  for (const command::Command& each : commands.all()) {
    const bool local = each.handling == command::Handling::local;
    CHECK(!local || handlers_[each.index] != nullptr);
  }
}

void LocalCommands::run(LocalCall& call) {
  handlers_[call.command.index](call, AdminContext{server_, commands_});
}

std::string server_version(const ServerView& server) {
  const std::string version = server.topology()->server_version();
  return version.empty() ? "7.0.0" : version;
}

bool is_printable_name(std::string_view name) {
  for (const char c : name) {
    if (c < '!' || c > '~') return false;
  }
  return true;
}

void reply_help(resp::ReplyWriter& reply, std::initializer_list<std::string_view> lines) {
  reply.array(lines.size());
  for (const std::string_view line : lines) reply.status(line);
}

std::int64_t now_ms() { return net::monotonic_now() / 1'000'000; }

}  // namespace penstock::admin
