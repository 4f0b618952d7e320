// INFO CPU of every master.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cluster/server_cpu.h"

#include <charconv>
#include <string_view>
#include <vector>

#include "cluster/node_query.h"

namespace penstock::cluster {
namespace {

using Clock = std::chrono::steady_clock;

// The number behind "name:" in INFO's text. used_cpu_sys and used_cpu_user are seconds of the main
// thread and all others together (redis.io/commands/info).
std::optional<double> field(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  double value = 0;
  const char* const begin = text.data() + at + name.size();
  if (std::from_chars(begin, text.data() + text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> ask(int fd, const NodeLogin& login, std::chrono::milliseconds limit) {
  NodeQuery query(fd, limit);
  std::vector<std::vector<std::string>> commands{{"INFO", "cpu"}};
  log_in_first(commands, login.username, login.password);
  if (!query.send(commands)) return std::nullopt;
  std::optional<std::string> text;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    text = query.read();
    if (!text) return std::nullopt;
  }
  const std::optional<double> system = field(*text, "used_cpu_sys:"),
                              user = field(*text, "used_cpu_user:");
  if (!system || !user) return std::nullopt;
  return *system + *user;
}

}  // namespace

std::optional<double> server_cpu(
    const Topology& topology, const NodeLogin& login, std::chrono::milliseconds limit,
    const std::function<int(const Endpoint&, std::chrono::milliseconds)>& dial) {
  const auto deadline = Clock::now() + limit;
  const auto left = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  };
  double total = 0;
  for (const Shard& shard : topology.shards()) {
    const std::chrono::milliseconds rest = left();
    if (rest.count() <= 0) return std::nullopt;
    const int fd = dial(shard.master.endpoint, rest);
    if (fd < 0) return std::nullopt;
    const std::optional<double> seconds = ask(fd, login, rest);
    if (!seconds) return std::nullopt;
    total += *seconds;
  }
  return total;
}

}  // namespace penstock::cluster
