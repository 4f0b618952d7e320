// The configuration: one plain struct, filled from one TOML file and --set overrides, then fixed.
// Every key, its default, its bounds and its comment stand once, in src/config/schema.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::config {

using Duration = std::chrono::microseconds;

enum class Engine : std::uint8_t { automatic, io_uring, epoll };
enum class Tracking : std::uint8_t { optin, broadcast };
enum class Sharding : std::uint8_t { automatic, worker, shared };

std::string_view name_of(Sharding sharding);
std::optional<Sharding> sharding_named(std::string_view name);

struct Config {
  struct {
    std::vector<std::string> listen{"0.0.0.0:7379"};
    std::string announce;
    std::uint64_t workers = 0;
    bool pin_workers = true;
    std::uint64_t max_clients = 10000;
    std::string password;
    Duration idle_timeout{0};
    Duration tcp_keepalive = std::chrono::seconds(300);
    std::uint64_t tcp_backlog = 511;
    Duration shutdown_grace = std::chrono::seconds(10);
  } server;
  struct {
    Engine engine = Engine::automatic;
    Duration batch_wait{1000};
    std::uint64_t batch_events = 256;
  } io;
  struct {
    std::vector<std::string> seeds{"127.0.0.1:6379"};
    std::string username;
    std::string password;
    Duration refresh_interval = std::chrono::seconds(15);
  } cluster;
  struct {
    Sharding sharding = Sharding::automatic;
    std::uint64_t connections_per_node = 1;
    std::string client_name = "penstock";
    Duration connect_timeout = std::chrono::seconds(1);
    Duration request_timeout = std::chrono::seconds(5);
    Duration retry_deadline = std::chrono::seconds(10);
    Duration tcp_keepalive = std::chrono::seconds(30);
  } backend;
  struct {
    bool enabled = false;
    std::uint64_t max_bytes_per_worker = 64ULL << 20;
    Duration max_age = std::chrono::seconds(10);
    Duration max_staleness = std::chrono::seconds(1);
    Tracking tracking = Tracking::broadcast;
    bool may_rest = true;
    std::vector<std::string> prefixes;
    std::vector<std::string> never;
  } reply_cache;
  struct {
    std::uint64_t client_output = 1ULL << 30;
    std::uint64_t client_output_soft = 1ULL << 20;
    std::uint64_t client_query = 1ULL << 30;
    std::uint64_t bulk = 512ULL << 20;
    std::uint64_t inflight_per_client = 1024;
    std::uint64_t pipe_queue = 64ULL << 20;
    std::uint64_t memory = 0;
  } limits;
  struct {
    std::string level = "info";
    std::string file;
  } log;
};

// One clear line: where, which key, what is wrong, what is allowed.
struct ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads `file` (when not empty), then applies the "key=value" overrides. Throws ConfigError.
Config load(const std::string& file, const std::vector<std::string>& overrides);

// The configuration as a TOML file: every key with its comment, its bounds and its value.
std::string print(const Config& config);

// Every key with its comment, bounds and default, as the Markdown of docs/configuration.md.
std::string print_reference();

// The values as (key, text) pairs, passwords left out, for CONFIG GET.
std::vector<std::pair<std::string, std::string>> values(const Config& config);

// A size as the configuration has it: "64mb".
std::string print_size(std::uint64_t bytes);

}  // namespace penstock::config
