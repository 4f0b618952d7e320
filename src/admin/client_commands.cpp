// CLIENT: identity, names, modes, and the list of all clients over all workers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "admin/handlers.h"
#include "penstock/command/key_finder.h"
#include "penstock/net/address.h"
#include "penstock/resp/number.h"

namespace penstock::admin {
namespace {

using command::equals_ignoring_case;

// One line of CLIENT LIST, in the server's format.
std::string describe(const ClientFacts& facts, const command::CommandTable& commands) {
  const ClientState& client = facts.state;
  const std::int64_t now = now_ms();
  const std::string_view last = client.last_command == 0xffff
                                    ? std::string_view("NULL")
                                    : commands.all()[client.last_command].name;
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags=N db=0 sub=0 psub=0 ssub=0 "
      "multi=-1 qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={} oll={} omem={} "
      "tot-mem={} events=r cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={} pipes={}",
      client.id, net::to_string(net::peer_address(facts.fd)),
      net::to_string(net::local_address(facts.fd)), facts.fd, client.name,
      (now - client.connected_at_ms) / 1000, (now - client.active_at_ms) / 1000,
      facts.query_bytes, facts.output_bytes, facts.requests_in_flight, facts.output_bytes,
      facts.memory_bytes, last, static_cast<int>(client.protocol), client.library_name,
      client.library_version, facts.shares_pipes ? "shared" : "worker");
}

void id(LocalCall& call, const AdminContext&) {
  call.reply.integer(static_cast<std::int64_t>(call.client.id));
}

void info(LocalCall& call, const AdminContext& context) {
  const ClientFacts facts{call.client, call.fd, 0, 0, 0, 0, call.shares_pipes};
  call.reply.verbatim(describe(facts, context.commands) + "\n");
}

void get_name(LocalCall& call, const AdminContext&) {
  if (call.client.name.empty()) return call.reply.null();
  call.reply.bulk(call.client.name);
}

void set_name(LocalCall& call, const AdminContext&) {
  if (!is_printable_name(call.request[2])) {
    return call.reply.error(
        "ERR Client names cannot contain spaces, newlines or special characters.");
  }
  call.client.name = call.request[2];
  call.reply.status("OK");
}

void set_info(LocalCall& call, const AdminContext&) {
  const std::string_view option = call.request[2];
  const bool name = equals_ignoring_case(option, "lib-name");
  if (!name && !equals_ignoring_case(option, "lib-ver")) {
    return call.reply.error(fmt::format("ERR Unrecognized option '{}'", resp::shown(option)));
  }
  if (!is_printable_name(call.request[3])) {
    return call.reply.error(
        fmt::format("ERR {} cannot contain spaces, newlines or special characters.", option));
  }
  (name ? call.client.library_name : call.client.library_version) = call.request[3];
  call.reply.status("OK");
}

void set_flag(LocalCall& call, bool ClientState::* flag) {
  const bool on = equals_ignoring_case(call.request[2], "on");
  if (!on && !equals_ignoring_case(call.request[2], "off")) {
    return call.reply.error("ERR syntax error");
  }
  call.client.*flag = on;
  call.reply.status("OK");
}

void no_evict(LocalCall& call, const AdminContext&) { set_flag(call, &ClientState::no_evict); }
void no_touch(LocalCall& call, const AdminContext&) { set_flag(call, &ClientState::no_touch); }

// ON is answered; OFF and SKIP are silent themselves.
void reply_mode(LocalCall& call, const AdminContext&) {
  const std::string_view mode = call.request[2];
  if (equals_ignoring_case(mode, "on")) {
    call.client.reply_mode = ReplyMode::on;
    call.reply.status("OK");
  } else if (equals_ignoring_case(mode, "off")) {
    call.client.reply_mode = ReplyMode::off;
  } else if (equals_ignoring_case(mode, "skip")) {
    if (call.client.reply_mode == ReplyMode::on) call.client.reply_mode = ReplyMode::skip;
  } else {
    call.reply.error("ERR syntax error");
  }
}

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

// "normal" is the only kind of client there is.
bool known_type(std::string_view type, bool& matches) {
  matches = equals_ignoring_case(type, "normal");
  return matches || equals_ignoring_case(type, "master") ||
         equals_ignoring_case(type, "replica") || equals_ignoring_case(type, "slave") ||
         equals_ignoring_case(type, "pubsub");
}

void list(LocalCall& call, const AdminContext& context) {
  const resp::Request& request = call.request;
  bool all = true;
  std::vector<std::int64_t> ids;
  if (request.size() == 4 && equals_ignoring_case(request[2], "type")) {
    if (!known_type(request[3], all)) {
      return call.reply.error(fmt::format("ERR Unknown client type '{}'", resp::shown(request[3])));
    }
  } else if (request.size() > 3 && equals_ignoring_case(request[2], "id")) {
    for (std::size_t i = 3; i < request.size(); ++i) {
      if (!resp::parse_integer(request[i], ids.emplace_back())) {
        return call.reply.error("ERR Invalid client ID");
      }
    }
  } else if (request.size() != 2) {
    return call.reply.error("ERR syntax error");
  }
  const resp::Protocol protocol = call.client.protocol;
  const command::CommandTable& commands = context.commands;
  call.gather = GatherJob{
      [all, ids, &commands](WorkerView& worker) {
        std::string lines;
        worker.for_each_client([&](const ClientFacts& facts) {
          const bool named =
              std::count(ids.begin(), ids.end(), static_cast<std::int64_t>(facts.state.id)) > 0;
          if (all && (ids.empty() || named)) lines += describe(facts, commands) + "\n";
        });
        return lines;
      },
      [protocol](const std::vector<std::string>& parts) {
        std::string out;
        resp::ReplyWriter(out, protocol).verbatim(join(parts));
        return out;
      }};
}

// What CLIENT KILL is to close. Unset fields match every client.
struct KillFilter {
  std::optional<std::uint64_t> id;
  std::optional<std::string> address, local_address, user;
  bool type_matches = true;
  bool skip_me = true;
  std::uint64_t my_id = 0;

  bool matches(const ClientFacts& facts) const {
    if (!type_matches || (user && *user != "default")) return false;
    if (skip_me && facts.state.id == my_id) return false;
    if (id && *id != facts.state.id) return false;
    if (address && *address != net::to_string(net::peer_address(facts.fd))) return false;
    return !local_address || *local_address == net::to_string(net::local_address(facts.fd));
  }
};

// Reads the filters of the new form; an error text, or none.
std::string read_filter(const resp::Request& request, KillFilter& filter) {
  for (std::size_t i = 2; i < request.size(); i += 2) {
    if (i + 1 == request.size()) return "ERR syntax error";
    const std::string_view name = request[i], value = request[i + 1];
    if (equals_ignoring_case(name, "id")) {
      std::int64_t id = 0;
      if (!resp::parse_integer(value, id) || id < 1) {
        return "ERR client-id should be greater than 0";
      }
      filter.id = static_cast<std::uint64_t>(id);
    } else if (equals_ignoring_case(name, "type")) {
      if (!known_type(value, filter.type_matches)) {
        return fmt::format("ERR Unknown client type '{}'", resp::shown(value));
      }
    } else if (equals_ignoring_case(name, "addr")) {
      filter.address = value;
    } else if (equals_ignoring_case(name, "laddr")) {
      filter.local_address = value;
    } else if (equals_ignoring_case(name, "user")) {
      if (value != "default") return fmt::format("ERR No such user '{}'", resp::shown(value));
      filter.user = value;
    } else if (equals_ignoring_case(name, "skipme")) {
      const bool yes = equals_ignoring_case(value, "yes");
      if (!yes && !equals_ignoring_case(value, "no")) return "ERR syntax error";
      filter.skip_me = yes;
    } else {
      return "ERR syntax error";
    }
  }
  return {};
}

std::int64_t sum_of(const std::vector<std::string>& numbers) {
  std::int64_t sum = 0;
  for (const std::string& text : numbers) {
    std::int64_t number = 0;
    resp::parse_integer(text, number);
    sum += number;
  }
  return sum;
}

std::string killed_reply(bool old_form, std::int64_t killed) {
  std::string out;
  resp::ReplyWriter reply(out, resp::Protocol::resp2);  // the same bytes in both
  if (!old_form) {
    reply.integer(killed);
  } else if (killed > 0) {
    reply.status("OK");
  } else {
    reply.error("ERR No such client");
  }
  return out;
}

void kill(LocalCall& call, const AdminContext&) {
  const bool old_form = call.request.size() == 3;
  KillFilter filter;
  filter.my_id = call.client.id;
  if (old_form) {
    filter.address = call.request[2];
    filter.skip_me = false;
  } else if (const std::string error = read_filter(call.request, filter); !error.empty()) {
    return call.reply.error(error);
  }
  const std::uint64_t me = call.client.id;
  // The caller's own connection closes after this reply.
  const bool kills_me = filter.matches({call.client, call.fd, 0, 0, 0, 0, call.shares_pipes});
  if (kills_me) call.client.close_requested = true;
  call.gather = GatherJob{
      [filter, me](WorkerView& worker) {
        std::vector<std::uint64_t> ids;
        worker.for_each_client([&](const ClientFacts& facts) {
          if (facts.state.id != me && filter.matches(facts)) ids.push_back(facts.state.id);
        });
        for (const std::uint64_t each : ids) worker.kill_client(each);
        return std::to_string(ids.size());
      },
      [old_form, kills_me](const std::vector<std::string>& parts) {
        return killed_reply(old_form, sum_of(parts) + (kills_me ? 1 : 0));
      }};
}

void help(LocalCall& call, const AdminContext&) {
  reply_help(call.reply,
             {"CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
              "GETNAME", "    Return the name of the current connection.",
              "ID", "    Return the ID of the current connection.",
              "INFO", "    Return information about the current client connection.",
              "KILL <ip:port>", "    Kill connection made from <ip:port>.",
              "KILL <option> <value> [<option> <value> [...]]",
              "    Kill connections. Options are: ADDR, LADDR, TYPE, USER, SKIPME, ID.",
              "LIST [options ...]", "    Return information about client connections. Options:",
              "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)", "    * ID <id> [<id> ...]",
              "NO-EVICT (ON|OFF)", "    Accepted; the proxy evicts nobody.",
              "NO-TOUCH (ON|OFF)", "    Accepted; it is not passed on to the nodes.",
              "REPLY (ON|OFF|SKIP)", "    Control the replies sent to the current connection.",
              "SETINFO <option> <value>", "    Set LIB-NAME or LIB-VER.",
              "SETNAME <name>", "    Assign the name <name> to the current connection.",
              "HELP", "    Prints this help."});
}

constexpr NamedHandler kHandlers[] = {
    {"client|id", id},           {"client|info", info},         {"client|list", list},
    {"client|setname", set_name}, {"client|getname", get_name}, {"client|setinfo", set_info},
    {"client|no-evict", no_evict}, {"client|no-touch", no_touch},
    {"client|reply", reply_mode}, {"client|kill", kill},        {"client|help", help},
};

}  // namespace

std::span<const NamedHandler> client_handlers() { return kHandlers; }

}  // namespace penstock::admin
