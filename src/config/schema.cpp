// Every configuration key: its default stands in config.h, all the rest here.
// SPDX-License-Identifier: Apache-2.0
#include "config/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "config/addresses.h"
#include "config/units.h"

namespace penstock::config {
namespace {

// A member of Config, named by a function that returns a reference to it.
template <typename T>
using Member = T& (*)(Config&);

template <typename T>
const T& get(Member<T> member, const Config& config) {
  return member(const_cast<Config&>(config));
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f) {
      out += fmt::format("\\u{:04X}", code);
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// A key with one value. `parse` has none for a node of the wrong type or out of range.
template <typename T, typename Parse, typename Print>
Key scalar(std::string name, Member<T> member, std::string allowed, std::string comment,
           Parse parse, Print print) {
  return {std::move(name), std::move(comment), std::move(allowed), false,
          [=](Config& config, const toml::node& node) -> const toml::node* {
            const std::optional<T> value = parse(node);
            if (!value) return &node;
            member(config) = *value;
            return nullptr;
          },
          [=](const Config& config) { return print(get(member, config)); }};
}

template <typename T>
std::optional<T> within(std::optional<T> value, T least, T most) {
  return value && least <= *value && *value <= most ? value : std::nullopt;
}

// True exactly when a text is good.
using Check = bool (*)(std::string_view);

bool is_any(std::string_view) { return true; }

bool is_node_address_or_empty(std::string_view text) {
  return text.empty() || is_node_address(text);
}

// What the servers' CLIENT SETNAME takes.
bool is_client_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

Key text(std::string name, Member<std::string> member, Check check, std::string allowed,
         std::string comment) {
  const auto parse = [check](const toml::node& node) {
    const std::optional<std::string> value = node.value_exact<std::string>();
    return value && check(*value) ? value : std::nullopt;
  };
  return scalar(std::move(name), member, std::move(allowed), std::move(comment), parse, quoted);
}

Key secret(std::string name, Member<std::string> member, std::string comment) {
  Key key = text(std::move(name), member, is_any, "a text", std::move(comment));
  key.secret = true;
  return key;
}

// A list of texts; at least one, unless it may be empty.
Key texts(std::string name, Member<std::vector<std::string>> member, Check check,
          std::string allowed, std::string comment, bool may_be_empty = false) {
  return {std::move(name), std::move(comment), std::move(allowed), false,
          [=](Config& config, const toml::node& node) -> const toml::node* {
            const toml::array* array = node.as_array();
            if (array == nullptr || (array->empty() && !may_be_empty)) return &node;
            std::vector<std::string> values;
            for (const toml::node& element : *array) {
              const auto value = element.value_exact<std::string>();
              if (!value || !check(*value)) return &element;
              values.push_back(*value);
            }
            member(config) = std::move(values);
            return nullptr;
          },
          [member](const Config& config) {
            std::string out;
            for (const std::string& value : get(member, config)) {
              if (!out.empty()) out += ", ";
              out += quoted(value);
            }
            return fmt::format("[{}]", out);
          }};
}

Key flag(std::string name, Member<bool> member, std::string comment) {
  return scalar(
      std::move(name), member, "true or false", std::move(comment),
      [](const toml::node& node) { return node.value_exact<bool>(); },
      [](bool value) { return value ? "true" : "false"; });
}

Key number(std::string name, Member<std::uint64_t> member, std::int64_t least, std::int64_t most,
           std::string comment) {
  return scalar(
      std::move(name), member, fmt::format("a whole number from {} to {}", least, most),
      std::move(comment),
      [=](const toml::node& node) {
        return within(node.value_exact<std::int64_t>(), least, most);
      },
      [](std::uint64_t value) { return std::to_string(value); });
}

Key duration(std::string name, Member<Duration> member, Duration least, Duration most,
             std::string comment) {
  return scalar(
      std::move(name), member,
      fmt::format("a duration with a unit (us, ms, s, m, h) from \"{}\" to \"{}\"",
                  print_duration(least), print_duration(most)),
      std::move(comment),
      [=](const toml::node& node) {
        const auto value = node.value_exact<std::string>();
        return within(value ? parse_duration(*value) : std::nullopt, least, most);
      },
      [](Duration value) { return quoted(print_duration(value)); });
}

Key size(std::string name, Member<std::uint64_t> member, std::uint64_t least, std::uint64_t most,
         std::string comment) {
  return scalar(
      std::move(name), member,
      fmt::format("a size with a unit (b, kb, mb, gb) from \"{}\" to \"{}\"", print_size(least),
                  print_size(most)),
      std::move(comment),
      [=](const toml::node& node) {
        const auto value = node.value_exact<std::string>();
        return within(value ? parse_size(*value) : std::nullopt, least, most);
      },
      [](std::uint64_t value) { return quoted(print_size(value)); });
}

template <typename T>
using Names = std::vector<std::pair<std::string, T>>;

template <typename T>
Key choice(std::string name, Member<T> member, const Names<T>& names, std::string comment) {
  std::string allowed = "one of";
  for (const auto& [text, value] : names) allowed += fmt::format(" \"{}\"", text);
  const auto parse = [names](const toml::node& node) -> std::optional<T> {
    const auto given = node.value_exact<std::string>();
    for (const auto& [text, value] : names) {
      if (given == text) return value;
    }
    return std::nullopt;
  };
  const auto print = [names](const T& wanted) {
    for (const auto& [text, value] : names) {
      if (value == wanted) return quoted(text);
    }
    return std::string();
  };
  return scalar(std::move(name), member, std::move(allowed), std::move(comment), parse, print);
}

// A choice among texts that are kept as they are.
Key word(std::string name, Member<std::string> member, const std::vector<std::string>& words,
         std::string comment) {
  Names<std::string> names;
  for (const std::string& each : words) names.emplace_back(each, each);
  return choice<std::string>(std::move(name), member, names, std::move(comment));
}

constexpr std::array<std::pair<const char*, Sharding>, 3> kShardingNames{
    {{"auto", Sharding::automatic}, {"worker", Sharding::worker}, {"shared", Sharding::shared}}};

#define MEMBER(path) [](Config& config) -> decltype(config.path)& { return config.path; }

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr std::uint64_t kKb = 1ULL << 10, kMb = 1ULL << 20, kGb = 1ULL << 30;

void add_server(std::vector<Key>& keys) {
  keys.push_back(texts("server.listen", MEMBER(server.listen), is_listen_address,
                       "a list of \"host:port\" or \"[ipv6]:port\" (ports 0 to 65535, 0: any free "
                       "one) or \"unix:/path\" (paths up to 107 bytes)",
                       "Where clients connect."));
  keys.push_back(text("server.announce", MEMBER(server.announce), is_node_address_or_empty,
                      "\"host:port\" or \"[ipv6]:port\" (ports 1 to 65535), or an empty text",
                      "The address that cluster-aware clients are told. "
                      "Empty: the one they dialled."));
  // Never beyond 1023: a reply token has ten bits for its worker.
  keys.push_back(number("server.workers", MEMBER(server.workers), 0, 256,
                        "Worker threads. 0: one per CPU this process may use."));
  keys.push_back(flag("server.pin_workers", MEMBER(server.pin_workers),
                      "Bind each worker to a CPU of its own."));
  keys.push_back(number("server.max_clients", MEMBER(server.max_clients), 1, 1'000'000,
                        "Client connections at once; one more is told so and closed."));
  keys.push_back(secret("server.password", MEMBER(server.password),
                        "What clients must AUTH with. Empty: no password."));
  keys.push_back(duration("server.idle_timeout", MEMBER(server.idle_timeout), seconds(0),
                          hours(24 * 30), "Close a client after so long without a command. "
                          "\"0s\": never."));
  keys.push_back(duration("server.tcp_keepalive", MEMBER(server.tcp_keepalive), seconds(0),
                          hours(24), "Probe a silent client connection after so long. "
                          "\"0s\": never."));
  keys.push_back(number("server.tcp_backlog", MEMBER(server.tcp_backlog), 1, 65535,
                        "Connections that may wait to be accepted, for each listening socket."));
  keys.push_back(duration("server.shutdown_grace", MEMBER(server.shutdown_grace), seconds(0),
                          hours(1), "How long SIGTERM and SIGINT wait for requests in flight."));
}

void add_io(std::vector<Key>& keys) {
  keys.push_back(choice<Engine>("io.engine", MEMBER(io.engine),
                                {{"auto", Engine::automatic},
                                 {"io_uring", Engine::io_uring},
                                 {"epoll", Engine::epoll}},
                                "The event loop. auto: io_uring where the kernel allows it, "
                                "else epoll."));
  keys.push_back(duration("io.batch_wait", MEMBER(io.batch_wait), microseconds(0), milliseconds(1),
                          "A busy worker with many active clients waits up to this long for more "
                          "events to handle in one turn, and never longer than a sixteenth of a "
                          "client's round. \"0s\": never. An idle proxy never waits."));
  keys.push_back(number("io.batch_events", MEMBER(io.batch_events), 1, 1024,
                        "The number of events that ends such a wait early."));
}

void add_cluster(std::vector<Key>& keys) {
  keys.push_back(texts("cluster.seeds", MEMBER(cluster.seeds), is_node_address,
                       "a list of \"host:port\" or \"[ipv6]:port\" (ports 1 to 65535)",
                       "Nodes to learn the cluster from. One that answers is enough."));
  keys.push_back(text("cluster.username", MEMBER(cluster.username), is_any, "a text",
                      "The ACL user to authenticate to the nodes as. Empty: the default user."));
  keys.push_back(secret("cluster.password", MEMBER(cluster.password),
                        "The password for the nodes. Empty: no AUTH is sent."));
  keys.push_back(duration("cluster.refresh_interval", MEMBER(cluster.refresh_interval),
                          milliseconds(100), hours(1),
                          "Ask for the cluster's map this often; redirects and failures make "
                          "it sooner."));
}

void add_backend(std::vector<Key>& keys) {
  keys.push_back(choice<Sharding>("backend.sharding", MEMBER(backend.sharding),
                                  {kShardingNames.begin(), kShardingNames.end()},
                                  "Which connections carry a command. worker: the worker's own. "
                                  "shared: one per node for the whole process. auto: what a "
                                  "measured experiment finds better."));
  keys.push_back(number("backend.connections_per_node", MEMBER(backend.connections_per_node), 1,
                        16, "Connections to each node for each protocol in use, of each worker "
                        "and of the shared ones."));
  keys.push_back(text("backend.client_name", MEMBER(backend.client_name), is_client_name,
                      "printable ASCII without spaces, or an empty text",
                      "The name the nodes see in their CLIENT LIST. Empty: none."));
  keys.push_back(duration("backend.connect_timeout", MEMBER(backend.connect_timeout),
                          milliseconds(10), seconds(60),
                          "How long a connection to a node may take, handshake included."));
  keys.push_back(duration("backend.request_timeout", MEMBER(backend.request_timeout),
                          milliseconds(10), hours(1),
                          "How long a node may take to answer a request that was sent."));
  keys.push_back(duration("backend.retry_deadline", MEMBER(backend.retry_deadline), seconds(0),
                          hours(1), "How long a request that provably did not run (MOVED, ASK, "
                          "TRYAGAIN, CLUSTERDOWN, LOADING, READONLY, never sent) is tried again."));
  keys.push_back(duration("backend.tcp_keepalive", MEMBER(backend.tcp_keepalive), seconds(1),
                          hours(24), "Probe a silent connection to a node after so long; three "
                          "times this long without an answer ends it."));
}

void add_reply_cache(std::vector<Key>& keys) {
  keys.push_back(flag("reply_cache.enabled", MEMBER(reply_cache.enabled),
                      "Answer hot reads from memory that the nodes keep coherent."));
  keys.push_back(size("reply_cache.max_bytes_per_worker",
                      MEMBER(reply_cache.max_bytes_per_worker), kMb, 64 * kGb,
                      "Memory for replies, with all that surrounds them. The workers have it "
                      "together."));
  keys.push_back(duration("reply_cache.max_age", MEMBER(reply_cache.max_age), milliseconds(10),
                          hours(1), "No reply is served for longer, whatever the nodes say. An "
                          "entry never outlives its key either."));
  keys.push_back(duration("reply_cache.max_staleness", MEMBER(reply_cache.max_staleness),
                          milliseconds(40), seconds(60),
                          "Nothing is served of a node that has not proven within this time that "
                          "it still announces changes: how old a read may be when a node is cut "
                          "off."));
  keys.push_back(choice<Tracking>("reply_cache.tracking", MEMBER(reply_cache.tracking),
                                  {{"broadcast", Tracking::broadcast}, {"optin", Tracking::optin}},
                                  "broadcast: the nodes announce every key that somebody else "
                                  "writes, and values that clients write are kept. optin: the "
                                  "nodes remember which keys were read."));
  keys.push_back(flag("reply_cache.may_rest", MEMBER(reply_cache.may_rest),
                      "Let the cache rest for a while, half a minute to eight, whenever it costs "
                      "the nodes more than it saves them."));
  keys.push_back(texts("reply_cache.prefixes", MEMBER(reply_cache.prefixes), is_any,
                       "a list of texts of which none begins with another, or an empty list",
                       "Keep only keys that begin with one of these; with broadcast the nodes "
                       "announce no others. Empty: all keys.", true));
  keys.push_back(texts("reply_cache.never", MEMBER(reply_cache.never), is_any,
                       "a list of texts, or an empty list",
                       "Patterns of keys that are never kept: *, ?, [a-z].", true));
}

void add_rest(std::vector<Key>& keys) {
  keys.push_back(size("limits.client_output", MEMBER(limits.client_output), 64 * kKb, 4 * kGb - 1,
                      "Replies that wait for one client to read them; beyond, it is closed."));
  keys.push_back(size("limits.client_output_soft", MEMBER(limits.client_output_soft), 4 * kKb,
                      kGb, "Unread replies beyond which no more requests of that client "
                      "are taken."));
  // Not below 64 KiB: one receive brings as much, and what of it has to wait counts.
  keys.push_back(size("limits.client_query", MEMBER(limits.client_query), 64 * kKb, 4 * kGb - 1,
                      "The largest request of one client; beyond, it is closed."));
  keys.push_back(size("limits.bulk", MEMBER(limits.bulk), kMb, 2 * kGb,
                      "The largest argument, as proto-max-bulk-len of the nodes."));
  keys.push_back(number("limits.inflight_per_client", MEMBER(limits.inflight_per_client), 1, 65536,
                        "Unanswered requests of one client; beyond, its socket is not read."));
  keys.push_back(size("limits.pipe_queue", MEMBER(limits.pipe_queue), kMb, 4 * kGb - 1,
                      "Requests that wait in one connection to a node; beyond, clients that want "
                      "it are not read."));
  keys.push_back(size("limits.memory", MEMBER(limits.memory), 0, 1024 * kGb,
                      "Buffers of the whole process; beyond, the clients that hold the most in "
                      "unread replies and unfinished requests are closed. \"0b\": 60 % of the "
                      "memory this process may use."));
  keys.push_back(word("log.level", MEMBER(log.level),
                      {"trace", "debug", "info", "warning", "error", "critical", "off"},
                      "What is logged."));
  keys.push_back(text("log.file", MEMBER(log.file), is_any, "a path, or an empty text",
                      "Where the log goes; opened again on SIGUSR1. Empty: standard error."));
}

#undef MEMBER

}  // namespace

std::string_view name_of(Sharding sharding) {
  for (const auto& [name, value] : kShardingNames) {
    if (value == sharding) return name;
  }
  return "";
}

std::optional<Sharding> sharding_named(std::string_view wanted) {
  for (const auto& [name, value] : kShardingNames) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

const std::vector<Key>& schema() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all;
    add_server(all);
    add_io(all);
    add_cluster(all);
    add_backend(all);
    add_reply_cache(all);
    add_rest(all);
    return all;
  }();
  return keys;
}

const Key* find_key(std::string_view name) {
  for (const Key& key : schema()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

}  // namespace penstock::config
