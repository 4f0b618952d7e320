// INFO, CONFIG, ROLE and CACHE.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "admin/handlers.h"
#include "penstock/config/glob.h"
#include "penstock/command/key_finder.h"

namespace penstock::admin {
namespace {

// Node reports cross threads as text, one line each, fields in the order of the struct.
std::string write_reports(const std::vector<NodeReport>& nodes) {
  std::string out;
  for (const NodeReport& node : nodes) {
    std::string trouble = node.trouble.empty() ? "-" : node.trouble;
    std::replace(trouble.begin(), trouble.end(), ' ', '_');
    out += fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}\n", node.address, node.pipes,
                       node.connected, node.in_flight, node.queued_bytes, node.requests,
                       node.replies, node.lost, node.timeouts, node.connects, node.failures,
                       trouble);
  }
  return out;
}

// The reports of all workers, added up by node.
std::vector<NodeReport> read_reports(const std::vector<std::string>& texts) {
  std::map<std::string, NodeReport> nodes;
  for (const std::string& text : texts) {
    std::istringstream in(text);
    NodeReport each;
    while (in >> each.address >> each.pipes >> each.connected >> each.in_flight >>
           each.queued_bytes >> each.requests >> each.replies >> each.lost >> each.timeouts >>
           each.connects >> each.failures >> each.trouble) {
      if (each.trouble == "-") each.trouble.clear();
      nodes[each.address].add(each);
    }
  }
  std::vector<NodeReport> out;
  for (auto& [address, report] : nodes) {
    report.address = address;
    out.push_back(std::move(report));
  }
  return out;
}

void info(LocalCall& call, const AdminContext& context) {
  // The request's bytes are gone by the time all workers have answered.
  auto words = std::make_shared<std::string>(call.request.frame());
  std::vector<resp::Argument> arguments;
  for (std::size_t i = 0; i < call.request.size(); ++i) {
    arguments.push_back(
        {static_cast<std::uint32_t>(call.request[i].data() - call.request.frame().data()),
         static_cast<std::uint32_t>(call.request[i].size())});
  }
  const resp::Protocol protocol = call.client.protocol;
  const AdminContext kept = context;
  call.gather = GatherJob{
      [](WorkerView& worker) { return write_reports(worker.nodes()); },
      [words, arguments, protocol, kept](const std::vector<std::string>& reports) {
        const resp::Request request(*words, arguments);
        std::string out;
        resp::ReplyWriter(out, protocol)
            .verbatim(info_report(kept, request, read_reports(reports)));
        return out;
      }};
}

// Parameters of the server that tools ask for, with values that are true or harmless here, and
// every key of the proxy's own configuration.
std::map<std::string, std::string> parameters(const ServerView& server) {
  const config::Config& config = *server.config;
  std::map<std::string, std::string> out{
      {"appendonly", "no"},
      {"bind", ""},
      {"cluster-enabled", "yes"},
      {"databases", "1"},
      {"io-threads", std::to_string(server.workers.size())},
      {"maxclients", std::to_string(config.server.max_clients)},
      {"maxmemory", "0"},
      {"maxmemory-policy", "noeviction"},
      {"notify-keyspace-events", ""},
      {"port", std::to_string(server.port)},
      {"proto-max-bulk-len", std::to_string(config.limits.bulk)},
      {"save", ""},
      {"slowlog-log-slower-than", "-1"},
      {"slowlog-max-len", "0"},
      {"tcp-backlog", std::to_string(config.server.tcp_backlog)},
      {"tcp-keepalive", std::to_string(config.server.tcp_keepalive.count() / 1'000'000)},
      {"timeout", std::to_string(config.server.idle_timeout.count() / 1'000'000)},
  };
  for (auto& [name, value] : config::values(config)) {
    // A text is shown without its quotes.
    const bool quoted = value.size() >= 2 && value.front() == '"';
    out[name] = quoted ? value.substr(1, value.size() - 2) : value;
  }
  out["backend.sharding"] = config::name_of(server.sharding().wanted);
  const CacheReport cache = server.cache();
  out["reply_cache.enabled"] = cache.enabled ? "true" : "false";
  out["reply_cache.max_bytes_per_worker"] = config::print_size(cache.max_bytes_per_worker);
  return out;
}

void config_get(LocalCall& call, const AdminContext& context) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [name, value] : parameters(context.server)) {
    for (std::size_t i = 2; i < call.request.size(); ++i) {
      const std::string_view wanted = call.request[i];
      if (!config::matches_glob(wanted, name)) continue;
      // A name that is no pattern comes back as it was spelt.
      const bool pattern = wanted.find_first_of("[*?") != std::string_view::npos;
      found.emplace_back(pattern ? std::string_view(name) : wanted, value);
      break;
    }
  }
  call.reply.map(found.size());
  for (const auto& [name, value] : found) {
    call.reply.bulk(name);
    call.reply.bulk(value);
  }
}

// What CONFIG SET was asked for.
struct Changes {
  std::optional<config::Sharding> sharding;
  std::optional<bool> cache_enabled;
  std::optional<std::uint64_t> cache_bytes;
};

// What is wrong with a new value; empty: nothing, and it is among the changes.
std::string take_change(const std::string& name, std::string_view value, Changes& changes) {
  const auto set = [](auto& change, auto wanted) -> std::string {
    if (change) return "duplicate parameter";
    change = wanted;
    return "";
  };
  if (name == "backend.sharding") {
    const auto sharding = config::sharding_named(value);
    if (!sharding) return "argument(s) must be one of the following: auto, worker, shared";
    return set(changes.sharding, *sharding);
  }
  const bool enables = name == "reply_cache.enabled";
  if (!enables && name != "reply_cache.max_bytes_per_worker") {
    return "it can't change while the proxy runs";
  }
  if (enables && (value == "yes" || value == "no")) value = value == "yes" ? "true" : "false";
  try {
    const config::Config wanted = config::load("", {fmt::format("{}={}", name, value)});
    return enables ? set(changes.cache_enabled, wanted.reply_cache.enabled)
                   : set(changes.cache_bytes, wanted.reply_cache.max_bytes_per_worker);
  } catch (const config::ConfigError& error) {
    return error.what();
  }
}

void config_set(LocalCall& call, const AdminContext& context) {
  if (call.request.size() % 2 != 0) return call.reply.error("ERR syntax error");
  Changes changes;
  const auto known = parameters(context.server);
  for (std::size_t i = 2; i < call.request.size(); i += 2) {
    const auto is_it = [&](const auto& parameter) {
      return command::equals_ignoring_case(parameter.first, call.request[i]);
    };
    const auto parameter = std::find_if(known.begin(), known.end(), is_it);
    if (parameter == known.end()) {
      return call.reply.error(
          fmt::format("ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                      resp::shown(call.request[i])));
    }
    const std::string why = take_change(parameter->first, call.request[i + 1], changes);
    if (why.empty()) continue;
    return call.reply.error(
        fmt::format("ERR CONFIG SET failed (possibly related to argument '{}') - {}",
                    parameter->first, resp::shown(why)));
  }
  if (changes.sharding) context.server.set_sharding(*changes.sharding);
  if (changes.cache_bytes) context.server.resize_cache(*changes.cache_bytes);
  if (changes.cache_enabled) context.server.enable_cache(*changes.cache_enabled);
  call.reply.status("OK");
}

void cache_flush(LocalCall& call, const AdminContext& context) {
  if (call.request.size() != 2) {
    return call.reply.error("ERR wrong number of arguments for 'cache|flush' command");
  }
  context.server.flush_cache();
  call.reply.status("OK");
}

void config_help(LocalCall& call, const AdminContext&) {
  reply_help(call.reply,
             {"CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", "GET <pattern>",
              "    Return parameters matching the glob-like <pattern> and their values.",
              "SET <directive> <value>",
              "    Set a parameter that can change while the proxy runs.", "HELP",
              "    Prints this help."});
}

void role(LocalCall& call, const AdminContext&) {
  call.reply.array(3);
  call.reply.bulk("master");
  call.reply.integer(0);
  call.reply.array(0);
}

constexpr NamedHandler kHandlers[] = {
    {"info", info},
    {"config|get", config_get},
    {"config|set", config_set},
    {"config|help", config_help},
    {"role", role},
    {"cache|flush", cache_flush},
};

}  // namespace

std::span<const NamedHandler> server_handlers() { return kHandlers; }

}  // namespace penstock::admin
