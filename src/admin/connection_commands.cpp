// PING, ECHO, TIME, QUIT, RESET, SELECT, AUTH, HELLO and the cluster modes of a connection.
// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "admin/handlers.h"
#include "penstock/command/key_finder.h"
#include "penstock/resp/number.h"

namespace penstock::admin {
namespace {

using command::equals_ignoring_case;

constexpr std::string_view kWrongPass =
    "WRONGPASS invalid username-password pair or user is disabled.";
constexpr std::string_view kBadName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

void ping(LocalCall& call, const AdminContext&) {
  if (call.request.size() > 2) {
    return call.reply.error("ERR wrong number of arguments for 'ping' command");
  }
  if (call.request.size() == 2) return call.reply.bulk(call.request[1]);
  call.reply.status("PONG");
}

void echo(LocalCall& call, const AdminContext&) { call.reply.bulk(call.request[1]); }

void time_of_day(LocalCall& call, const AdminContext&) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  call.reply.array(2);
  call.reply.bulk(std::to_string(now.tv_sec));
  call.reply.bulk(std::to_string(now.tv_nsec / 1000));
}

void quit(LocalCall& call, const AdminContext&) {
  call.client.close_requested = true;
  call.reply.status("OK");
}

void reset(LocalCall& call, const AdminContext& context) {
  ClientState& client = call.client;
  client.protocol = resp::Protocol::resp2;
  client.reply_mode = ReplyMode::on;
  client.authenticated = context.server.config->server.password.empty();
  client.no_evict = client.no_touch = false;
  client.name.clear();
  call.reply.switch_to(client.protocol);
  call.reply.status("RESET");
}

void select(LocalCall& call, const AdminContext&) {
  std::int64_t index = 0;
  if (!resp::parse_integer(call.request[1], index)) {
    return call.reply.error("ERR value is not an integer or out of range");
  }
  if (index < INT32_MIN || index > INT32_MAX) {
    return call.reply.error(
        "ERR value is out of range, value must between -2147483648 and 2147483647");
  }
  if (index != 0) return call.reply.error("ERR SELECT is not allowed in cluster mode");
  call.reply.status("OK");
}

// A cluster-aware client sets these modes on what it takes for a node; they change nothing here.
void accept_mode(LocalCall& call, const AdminContext&) { call.reply.status("OK"); }

// Takes as long for a wrong password as for the right one.
bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(expected);
  }
  return difference == 0;
}

// There is one user, "default"; without server.password every password is right for it.
bool authenticate(ClientState& client, const ServerView& server, std::string_view user,
                  std::string_view password) {
  const std::string& secret = server.config->server.password;
  if (user != "default") return false;
  if (!secret.empty() && !equal_in_constant_time(password, secret)) return false;
  client.authenticated = true;
  return true;
}

void auth(LocalCall& call, const AdminContext& context) {
  const resp::Request& request = call.request;
  if (request.size() > 3) return call.reply.error("ERR syntax error");
  if (request.size() == 2 && context.server.config->server.password.empty()) {
    return call.reply.error(
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?");
  }
  const std::string_view user = request.size() == 3 ? request[1] : "default";
  if (!authenticate(call.client, context.server, user, request[request.size() - 1])) {
    return call.reply.error(kWrongPass);
  }
  call.reply.status("OK");
}

struct HelloOptions {
  std::optional<resp::Protocol> protocol;
  std::optional<std::string_view> name;
};

// Reads HELLO's arguments and authenticates on the way; an error text, or none.
std::string read_hello(LocalCall& call, const AdminContext& context, HelloOptions& options) {
  const resp::Request& request = call.request;
  if (request.size() == 1) return {};
  std::int64_t version = 0;
  if (!resp::parse_integer(request[1], version)) {
    return "ERR Protocol version is not an integer or out of range";
  }
  if (version != 2 && version != 3) return "NOPROTO unsupported protocol version";
  options.protocol = static_cast<resp::Protocol>(version);
  for (std::size_t i = 2; i < request.size(); ++i) {
    const std::size_t more = request.size() - i - 1;
    if (equals_ignoring_case(request[i], "auth") && more >= 2) {
      if (!authenticate(call.client, context.server, request[i + 1], request[i + 2])) {
        return std::string(kWrongPass);
      }
      i += 2;
    } else if (equals_ignoring_case(request[i], "setname") && more >= 1) {
      options.name = request[++i];
      if (!is_printable_name(*options.name)) return std::string(kBadName);
    } else {
      return fmt::format("ERR Syntax error in HELLO option '{}'", resp::shown(request[i]));
    }
  }
  return {};
}

void hello(LocalCall& call, const AdminContext& context) {
  HelloOptions options;
  const std::string error = read_hello(call, context, options);
  if (!error.empty()) return call.reply.error(error);
  ClientState& client = call.client;
  if (!client.authenticated) {
    return call.reply.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the "
        "HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and "
        "select the RESP protocol version at the same time");
  }
  if (options.name) client.name = *options.name;
  if (options.protocol) client.protocol = *options.protocol;
  resp::ReplyWriter& reply = call.reply;
  reply.switch_to(client.protocol);
  reply.map(7);
  reply.bulk("server");
  reply.bulk("redis");
  reply.bulk("version");
  reply.bulk(server_version(context.server));
  reply.bulk("proto");
  reply.integer(static_cast<int>(client.protocol));
  reply.bulk("id");
  reply.integer(static_cast<std::int64_t>(client.id));
  reply.bulk("mode");
  reply.bulk("cluster");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

constexpr NamedHandler kHandlers[] = {
    {"ping", ping},         {"echo", echo},           {"time", time_of_day},
    {"quit", quit},         {"reset", reset},         {"select", select},
    {"auth", auth},         {"hello", hello},         {"readonly", accept_mode},
    {"asking", accept_mode}, {"readwrite", accept_mode},
};

}  // namespace

std::span<const NamedHandler> connection_handlers() { return kHandlers; }

}  // namespace penstock::admin
