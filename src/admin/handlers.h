// The handlers of local commands, by file, and what they share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "penstock/admin/local_commands.h"

namespace penstock::admin {

struct AdminContext {
  const ServerView& server;
  const command::CommandTable& commands;
};
using Handler = void (*)(LocalCall&, const AdminContext&);

struct NamedHandler {
  std::string_view command;
  Handler handler;
};

std::span<const NamedHandler> connection_handlers();
std::span<const NamedHandler> client_handlers();
std::span<const NamedHandler> command_handlers();
std::span<const NamedHandler> server_handlers();
std::span<const NamedHandler> cluster_handlers();

// What clients take the proxy's version for: the nodes' own, or 7.0.0 until one has answered.
std::string server_version(const ServerView& server);

// The text of INFO; `nodes` are the reports of all workers.
std::string info_report(const AdminContext& context, const resp::Request& request,
                        const std::vector<NodeReport>& nodes);

// Whether a client's or library's name may be taken over: visible ASCII without spaces.
bool is_printable_name(std::string_view name);

// A HELP reply: one status for each line.
void reply_help(resp::ReplyWriter& reply, std::initializer_list<std::string_view> lines);

std::int64_t now_ms();

}  // namespace penstock::admin
