// Every configuration key: its default stands in config.h, all the rest here.
// SPDX-License-Identifier: Apache-2.0
#include "config/schema.h"

#include <fmt/format.h>

#include <array>
#include <utility>

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
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

Key text(std::string name, Member<std::string> member, std::string allowed, std::string comment) {
  return {std::move(name), std::move(comment), std::move(allowed), false,
          [member](Config& config, const toml::node& node) {
            const auto value = node.value_exact<std::string>();
            if (value) member(config) = *value;
            return value.has_value();
          },
          [member](const Config& config) { return quoted(get(member, config)); }};
}

Key secret(std::string name, Member<std::string> member, std::string comment) {
  Key key = text(std::move(name), member, "a text", std::move(comment));
  key.secret = true;
  return key;
}

Key texts(std::string name, Member<std::vector<std::string>> member, std::string allowed,
          std::string comment) {
  return {std::move(name), std::move(comment), std::move(allowed), false,
          [member](Config& config, const toml::node& node) {
            const toml::array* array = node.as_array();
            if (array == nullptr || array->empty()) return false;
            std::vector<std::string> values;
            for (const toml::node& element : *array) {
              const auto value = element.value_exact<std::string>();
              if (!value || value->empty()) return false;
              values.push_back(*value);
            }
            member(config) = std::move(values);
            return true;
          },
          [member](const Config& config) {
            std::string out;
            for (const std::string& value : get(member, config)) {
              out += (out.empty() ? "" : ", ") + quoted(value);
            }
            return "[" + out + "]";
          }};
}

Key flag(std::string name, Member<bool> member, std::string comment) {
  return {std::move(name), std::move(comment), "true or false", false,
          [member](Config& config, const toml::node& node) {
            const auto value = node.value_exact<bool>();
            if (value) member(config) = *value;
            return value.has_value();
          },
          [member](const Config& config) { return get(member, config) ? "true" : "false"; }};
}

Key number(std::string name, Member<std::uint64_t> member, std::int64_t least, std::int64_t most,
           std::string comment) {
  return {std::move(name), std::move(comment),
          fmt::format("a whole number from {} to {}", least, most), false,
          [=](Config& config, const toml::node& node) {
            const auto value = node.value_exact<std::int64_t>();
            if (!value || *value < least || *value > most) return false;
            member(config) = static_cast<std::uint64_t>(*value);
            return true;
          },
          [member](const Config& config) { return std::to_string(get(member, config)); }};
}

Key duration(std::string name, Member<Duration> member, Duration least, Duration most,
             std::string comment) {
  return {std::move(name), std::move(comment),
          fmt::format("a duration with a unit (us, ms, s, m, h) from \"{}\" to \"{}\"",
                      print_duration(least), print_duration(most)),
          false,
          [=](Config& config, const toml::node& node) {
            const auto value = node.value_exact<std::string>();
            const auto parsed = value ? parse_duration(*value) : std::nullopt;
            if (!parsed || *parsed < least || *parsed > most) return false;
            member(config) = *parsed;
            return true;
          },
          [member](const Config& config) { return quoted(print_duration(get(member, config))); }};
}

Key size(std::string name, Member<std::uint64_t> member, std::uint64_t least, std::uint64_t most,
         std::string comment) {
  return {std::move(name), std::move(comment),
          fmt::format("a size with a unit (b, kb, mb, gb) from \"{}\" to \"{}\"",
                      print_size(least), print_size(most)),
          false,
          [=](Config& config, const toml::node& node) {
            const auto value = node.value_exact<std::string>();
            const auto parsed = value ? parse_size(*value) : std::nullopt;
            if (!parsed || *parsed < least || *parsed > most) return false;
            member(config) = *parsed;
            return true;
          },
          [member](const Config& config) { return quoted(print_size(get(member, config))); }};
}

template <typename T>
using Names = std::vector<std::pair<std::string, T>>;

template <typename T>
Key choice(std::string name, Member<T> member, Names<T> names, std::string comment) {
  std::string allowed = "one of";
  for (const auto& [text, value] : names) allowed += fmt::format(" \"{}\"", text);
  return {std::move(name), std::move(comment), std::move(allowed), false,
          [=](Config& config, const toml::node& node) {
            const auto given = node.value_exact<std::string>();
            for (const auto& [text, value] : names) {
              if (given != text) continue;
              member(config) = value;
              return true;
            }
            return false;
          },
          [=](const Config& config) {
            for (const auto& [text, value] : names) {
              if (value == get(member, config)) return quoted(text);
            }
            return std::string();
          }};
}

// A choice among texts that are kept as they are.
Key word(std::string name, Member<std::string> member, std::vector<std::string> words,
         std::string comment) {
  Names<std::string> names;
  for (const std::string& each : words) names.emplace_back(each, each);
  return choice<std::string>(std::move(name), member, std::move(names), std::move(comment));
}

// A feature that is not there yet: its key exists, and only "off" is taken.
Key off(std::string name, Member<bool> member, std::string comment) {
  Key key = flag(std::move(name), member, std::move(comment));
  key.allowed = "false (true is not supported yet)";
  key.read = [](Config&, const toml::node& node) { return node.value_exact<bool>() == false; };
  return key;
}

#define MEMBER(path) [](Config& config) -> decltype(config.path)& { return config.path; }

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr std::uint64_t kKb = 1ULL << 10, kMb = 1ULL << 20, kGb = 1ULL << 30;

void add_server(std::vector<Key>& keys) {
  keys.push_back(texts("server.listen", MEMBER(server.listen),
                       "a list of \"host:port\", \"[ipv6]:port\" or \"unix:/path\"",
                       "Where clients connect."));
  keys.push_back(text("server.announce", MEMBER(server.announce), "\"host:port\" or an empty text",
                      "The address that cluster-aware clients are told. "
                      "Empty: the one they dialled."));
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
  keys.push_back(texts("cluster.seeds", MEMBER(cluster.seeds),
                       "a list of \"host:port\" or \"[ipv6]:port\"",
                       "Nodes to learn the cluster from. One that answers is enough."));
  keys.push_back(text("cluster.username", MEMBER(cluster.username), "a text",
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
                                  {{"auto", Sharding::automatic}, {"worker", Sharding::worker}},
                                  "Which connections carry a command. worker: the worker's own. "
                                  "auto: the proxy decides; today it always takes the "
                                  "worker's own."));
  keys.push_back(number("backend.connections_per_node", MEMBER(backend.connections_per_node), 1,
                        16, "Connections of each worker to each node, for each protocol in use."));
  keys.push_back(text("backend.client_name", MEMBER(backend.client_name),
                      "a text without spaces; empty: none",
                      "The name the nodes see in their CLIENT LIST."));
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

void add_rest(std::vector<Key>& keys) {
  keys.push_back(off("reply_cache.enabled", MEMBER(reply_cache.enabled),
                     "Answer hot reads from memory. Not supported yet."));
  keys.push_back(size("limits.client_output", MEMBER(limits.client_output), 64 * kKb, 4 * kGb - 1,
                      "Replies that wait for one client to read them; beyond, it is closed."));
  keys.push_back(size("limits.client_output_soft", MEMBER(limits.client_output_soft), 4 * kKb,
                      kGb, "Unread replies beyond which no more requests of that client "
                      "are taken."));
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
                      "Buffers of the whole process; beyond, the clients with the most unread "
                      "replies are closed. \"0b\": 60 % of the memory this process may use."));
  keys.push_back(word("log.level", MEMBER(log.level),
                      {"trace", "debug", "info", "warning", "error", "critical", "off"},
                      "What is logged."));
  keys.push_back(text("log.file", MEMBER(log.file), "a path, or an empty text",
                      "Where the log goes; opened again on SIGUSR1. Empty: standard error."));
}

#undef MEMBER

}  // namespace

const std::vector<Key>& schema() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all;
    add_server(all);
    add_io(all);
    add_cluster(all);
    add_backend(all);
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
