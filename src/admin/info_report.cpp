// The text of INFO: the fields that tools look for, and the proxy's own sections.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <vector>

#include "admin/handlers.h"
#include "penstock/command/key_finder.h"

namespace penstock::admin {
namespace {

using stats::WorkerStats;

// One section being written.
class Lines {
 public:
  explicit Lines(std::string& out) : out_(out) {}
  template <typename T>
  void add(std::string_view name, const T& value) {
    fmt::format_to(std::back_inserter(out_), "{}:{}\r\n", name, value);
  }

 private:
  std::string& out_;
};

struct Report {
  const AdminContext& context;
  const std::vector<NodeReport>& nodes;

  const ServerView& server() const { return context.server; }
  std::uint64_t sum(stats::Counter WorkerStats::* counter) const {
    std::uint64_t total = 0;
    for (const WorkerStats* worker : server().workers) total += (worker->*counter).get();
    return total;
  }
  std::uint64_t sum(stats::Counter net::ReactorStats::* counter) const {
    std::uint64_t total = 0;
    for (const net::ReactorStats* reactor : server().reactors) total += (reactor->*counter).get();
    return total;
  }
  std::uint64_t commands() const {
    std::uint64_t total = 0;
    for (const WorkerStats* worker : server().workers) {
      for (const stats::CommandStats& each : worker->by_command) total += each.calls.get();
    }
    return total;
  }
  stats::HistogramTotals totals(stats::Histogram WorkerStats::* histogram) const {
    stats::HistogramTotals totals;
    for (const WorkerStats* worker : server().workers) totals.add(worker->*histogram);
    return totals;
  }
};

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string human(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "K", "M", "G", "T"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}B", bytes) : fmt::format("{:.2f}{}", value, kUnits[unit]);
}

void server_section(Lines& lines, const Report& report) {
  const ServerView& server = report.server();
  utsname system{};
  uname(&system);
  const std::int64_t uptime = (now_ms() - server.started_at_ms) / 1000;
  lines.add("redis_version", server_version(server));
  lines.add("redis_mode", "cluster");
  lines.add("penstock_version", PENSTOCK_VERSION);
  lines.add("os", fmt::format("{} {} {}", system.sysname, system.release, system.machine));
  lines.add("arch_bits", 64);
  lines.add("multiplexing_api", server.engine);
  lines.add("process_id", getpid());
  lines.add("run_id", server.run_id);
  lines.add("tcp_port", server.port);
  lines.add("uptime_in_seconds", uptime);
  lines.add("uptime_in_days", uptime / 86400);
  lines.add("io_threads_active", server.workers.size() > 1 ? 1 : 0);
}

void clients_section(Lines& lines, const Report& report) {
  lines.add("connected_clients", report.sum(&WorkerStats::clients));
  lines.add("cluster_connections", report.nodes.size());
  lines.add("maxclients", report.server().config->server.max_clients);
  lines.add("blocked_clients", 0);
  lines.add("tracking_clients", 0);
}

void memory_section(Lines& lines, const Report& report) {
  const std::uint64_t resident = resident_bytes();
  lines.add("used_memory", resident);
  lines.add("used_memory_human", human(resident));
  lines.add("used_memory_rss", resident);
  lines.add("used_memory_rss_human", human(resident));
  lines.add("maxmemory", 0);
  lines.add("maxmemory_human", "0B");
  lines.add("maxmemory_policy", "noeviction");
  lines.add("buffer_bytes", report.sum(&WorkerStats::buffer_bytes));
  lines.add("buffer_bytes_cached", report.sum(&WorkerStats::buffer_bytes_cached));
}

void persistence_section(Lines& lines, const Report&) {
  lines.add("loading", 0);
  lines.add("rdb_bgsave_in_progress", 0);
  lines.add("aof_enabled", 0);
}

void stats_section(Lines& lines, const Report& report) {
  lines.add("total_connections_received", report.sum(&WorkerStats::clients_accepted));
  lines.add("total_commands_processed", report.commands());
  lines.add("instantaneous_ops_per_sec", report.server().ops_per_second());
  lines.add("total_net_input_bytes", report.sum(&net::ReactorStats::received_bytes));
  lines.add("total_net_output_bytes", report.sum(&net::ReactorStats::sent_bytes));
  lines.add("rejected_connections", report.sum(&WorkerStats::clients_rejected));
  lines.add("expired_keys", 0);
  lines.add("evicted_keys", 0);
  lines.add("keyspace_hits", 0);
  lines.add("keyspace_misses", 0);
  lines.add("pubsub_channels", 0);
  lines.add("pubsub_patterns", 0);
  std::uint64_t errors = 0;
  for (const WorkerStats* worker : report.server().workers) {
    for (const stats::Counter& each : worker->errors) errors += each.get();
  }
  lines.add("total_error_replies", errors);
  lines.add("protocol_errors", report.sum(&WorkerStats::protocol_errors));
  lines.add("clients_closed_output_limit", report.sum(&WorkerStats::clients_closed_output));
  lines.add("clients_closed_query_limit", report.sum(&WorkerStats::clients_closed_query));
  lines.add("clients_closed_idle", report.sum(&WorkerStats::clients_closed_idle));
  lines.add("clients_closed_memory", report.sum(&WorkerStats::clients_closed_memory));
}

void replication_section(Lines& lines, const Report&) {
  lines.add("role", "master");
  lines.add("connected_slaves", 0);
  lines.add("master_repl_offset", 0);
}

void cpu_section(Lines& lines, const Report&) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return fmt::format("{}.{:06}", time.tv_sec, time.tv_usec);
  };
  lines.add("used_cpu_sys", seconds(usage.ru_stime));
  lines.add("used_cpu_user", seconds(usage.ru_utime));
}

void modules_section(Lines&, const Report&) {}

void errorstats_section(Lines& lines, const Report& report) {
  for (std::size_t i = 0; i < stats::kErrorCodes.size(); ++i) {
    std::uint64_t count = 0;
    for (const WorkerStats* worker : report.server().workers) count += worker->errors[i].get();
    if (count == 0) continue;
    lines.add(fmt::format("errorstat_{}", stats::kErrorCodes[i]), fmt::format("count={}", count));
  }
}

// Calls and the time from reading a request to handing over its reply.
void commandstats_section(Lines& lines, const Report& report) {
  for (const command::Command& command : report.context.commands.all()) {
    std::uint64_t calls = 0, usec = 0, failed = 0;
    for (const WorkerStats* worker : report.server().workers) {
      const stats::CommandStats& each = worker->by_command[command.index];
      calls += each.calls.get();
      usec += each.usec.get();
      failed += each.failed.get();
    }
    if (calls == 0) continue;
    lines.add(fmt::format("cmdstat_{}", command.name),
              fmt::format("calls={},usec={},usec_per_call={:.2f},rejected_calls=0,failed_calls={}",
                          calls, usec, static_cast<double>(usec) / static_cast<double>(calls),
                          failed));
  }
}

void cluster_section(Lines& lines, const Report&) { lines.add("cluster_enabled", 1); }

void keyspace_section(Lines&, const Report&) {}

void latency_section(Lines& lines, const Report& report) {
  const std::pair<std::string_view, stats::Histogram WorkerStats::*> kinds[] = {
      {"latency_usec", &WorkerStats::latency},
      {"latency_backend_usec", &WorkerStats::backend_latency},
      {"latency_proxy_usec", &WorkerStats::proxy_latency},
      {"turn_usec", &WorkerStats::turn_time}};
  for (const auto& [name, histogram] : kinds) {
    const stats::HistogramTotals totals = report.totals(histogram);
    lines.add(name, fmt::format("p50={},p99={},p99.9={},count={}", totals.percentile(0.5),
                                totals.percentile(0.99), totals.percentile(0.999),
                                totals.count()));
  }
}

void workers_section(Lines& lines, const Report& report) {
  const ServerView& server = report.server();
  lines.add("io_engine", server.engine);
  lines.add("io_engine_fallback", server.engine_fallback);
  lines.add("workers", server.workers.size());
  for (std::size_t i = 0; i < server.workers.size(); ++i) {
    const WorkerStats& worker = *server.workers[i];
    std::uint64_t commands = 0;
    for (const stats::CommandStats& each : worker.by_command) commands += each.calls.get();
    lines.add(fmt::format("worker{}", i),
              fmt::format("clients={},commands={},in_flight={},buffer_bytes={}",
                          worker.clients.get(), commands, worker.in_flight.get(),
                          worker.buffer_bytes.get()));
  }
  const std::pair<std::string_view, stats::Counter net::ReactorStats::*> io[] = {
      {"turns", &net::ReactorStats::turns},
      {"io_enters", &net::ReactorStats::enters},
      {"io_events", &net::ReactorStats::events},
      {"receives", &net::ReactorStats::receives},
      {"sends", &net::ReactorStats::sends},
      {"receive_buffers_exhausted", &net::ReactorStats::buffers_exhausted},
      {"accept_pauses", &net::ReactorStats::accept_pauses}};
  for (const auto& [name, counter] : io) lines.add(name, report.sum(counter));
}

void backends_section(Lines& lines, const Report& report) {
  const std::pair<std::string_view, stats::Counter WorkerStats::*> counters[] = {
      {"moved", &WorkerStats::moved},
      {"ask", &WorkerStats::ask},
      {"tryagain", &WorkerStats::tryagain},
      {"clusterdown", &WorkerStats::clusterdown},
      {"loading", &WorkerStats::loading},
      {"readonly", &WorkerStats::readonly},
      {"masterdown", &WorkerStats::masterdown},
      {"retries", &WorkerStats::retries},
      {"outcome_unknown", &WorkerStats::outcome_unknown},
      {"timed_out", &WorkerStats::timed_out},
      {"not_sent", &WorkerStats::not_sent},
      {"split_commands", &WorkerStats::split_commands},
      {"split_parts", &WorkerStats::split_parts},
      {"stalled_order", &WorkerStats::stalled_order},
      {"stalled_pipe", &WorkerStats::stalled_pipe},
      {"stalled_in_flight", &WorkerStats::stalled_in_flight},
      {"stalled_output", &WorkerStats::stalled_output}};
  for (const auto& [name, counter] : counters) lines.add(name, report.sum(counter));
  for (std::size_t i = 0; i < report.nodes.size(); ++i) {
    const NodeReport& node = report.nodes[i];
    lines.add(fmt::format("node{}", i),
              fmt::format("addr={},pipes={},connected={},in_flight={},queued_bytes={},requests={},"
                          "replies={},lost={},timeouts={},connects={},failures={},trouble={}",
                          node.address, node.pipes, node.connected, node.in_flight,
                          node.queued_bytes, node.requests, node.replies, node.lost,
                          node.timeouts, node.connects, node.failures, node.trouble));
  }
}

void sharding_section(Lines& lines, const Report& report) {
  const ShardingReport sharding = report.server().sharding();
  lines.add("sharding_mode", config::name_of(sharding.wanted));
  lines.add("sharding_state", sharding.state);
  lines.add("sharding_trying", sharding.trying ? 1 : 0);
  lines.add("sharding_probes", sharding.probes);
  lines.add("sharding_keeps", sharding.keeps);
  lines.add("sharding_reverts", sharding.reverts);
  lines.add("sharding_next_probe_seconds",
            sharding.next_probe_seconds ? fmt::format("{:.0f}", *sharding.next_probe_seconds)
                                        : "never");
  lines.add("sharding_last_decision", sharding.last_verdict);
  const std::pair<std::string_view, stats::Counter WorkerStats::*> counters[] = {
      {"sharding_requests_handed_over", &WorkerStats::handed_over},
      {"sharding_replies_handed_back", &WorkerStats::handed_back},
      {"sharding_batches", &WorkerStats::batches_handed_over},
      {"sharding_wakes", &WorkerStats::wakes},
      {"sharding_session_switches", &WorkerStats::pipe_switches}};
  for (const auto& [name, counter] : counters) lines.add(name, report.sum(counter));
}

void reply_cache_section(Lines& lines, const Report& report) {
  const CacheReport cache = report.server().cache();
  lines.add("reply_cache_enabled", cache.enabled ? 1 : 0);
  lines.add("reply_cache_state", cache.state);
  lines.add("reply_cache_saved_per_cost", fmt::format("{:.2f}", cache.balance));
  lines.add("reply_cache_max_bytes_per_worker", cache.max_bytes_per_worker);
  lines.add("reply_cache_entries", cache.entries);
  lines.add("reply_cache_bytes", cache.bytes);
  lines.add("reply_cache_evictions", cache.evictions);
  lines.add("reply_cache_expired", cache.expired);
  const std::pair<std::string_view, stats::Counter WorkerStats::*> counters[] = {
      {"reply_cache_hits", &WorkerStats::cache_hits},
      {"reply_cache_joined", &WorkerStats::cache_joined},
      {"reply_cache_misses", &WorkerStats::cache_misses},
      {"reply_cache_writes", &WorkerStats::cache_writes},
      {"reply_cache_fills", &WorkerStats::cache_fills},
      {"reply_cache_writes_kept", &WorkerStats::cache_writes_kept},
      {"reply_cache_void_fills", &WorkerStats::cache_void},
      {"reply_cache_absent_keys", &WorkerStats::cache_absent},
      {"reply_cache_dropped_by_own_writes", &WorkerStats::cache_dropped_written},
      {"reply_cache_dropped_by_announcements", &WorkerStats::cache_dropped_announced},
      {"reply_cache_slots_forgotten", &WorkerStats::cache_slots_forgotten},
      {"reply_cache_node_flushes", &WorkerStats::cache_flushes},
      {"reply_cache_pushes", &WorkerStats::cache_pushes},
      {"reply_cache_keys_announced", &WorkerStats::cache_keys_announced},
      {"reply_cache_trackers", &WorkerStats::cache_trackers},
      {"reply_cache_trackers_up", &WorkerStats::cache_trackers_up}};
  for (const auto& [name, counter] : counters) lines.add(name, report.sum(counter));
  const auto hits = static_cast<double>(report.sum(&WorkerStats::cache_hits));
  const double reads = hits + static_cast<double>(report.sum(&WorkerStats::cache_joined) +
                                                  report.sum(&WorkerStats::cache_misses));
  lines.add("reply_cache_hit_ratio", fmt::format("{:.4f}", reads == 0 ? 0 : hits / reads));
}

void topology_section(Lines& lines, const Report& report) {
  const ServerView& server = report.server();
  const auto topology = server.topology();
  lines.add("topology_version", topology->version());
  lines.add("topology_epoch", topology->current_epoch());
  lines.add("topology_state", topology->state_ok() && !topology->empty() ? "ok" : "fail");
  lines.add("topology_shards", topology->shards().size());
  lines.add("topology_slots_covered", topology->slots_covered());
  lines.add("topology_refreshes", server.refresher->refreshes.get());
  lines.add("topology_refresh_failures", server.refresher->failures.get());
  lines.add("topology_changes", server.refresher->changes.get());
}

struct Section {
  std::string_view name;
  void (*write)(Lines&, const Report&);
  bool by_default = true;
};

constexpr Section kSections[] = {
    {"Server", server_section},
    {"Clients", clients_section},
    {"Memory", memory_section},
    {"Persistence", persistence_section},
    {"Stats", stats_section},
    {"Replication", replication_section},
    {"CPU", cpu_section},
    {"Modules", modules_section},
    {"Commandstats", commandstats_section, false},
    {"Errorstats", errorstats_section},
    {"Cluster", cluster_section},
    {"Keyspace", keyspace_section},
    {"Latency", latency_section},
    {"Workers", workers_section},
    {"Backends", backends_section},
    {"Sharding", sharding_section},
    {"Reply_cache", reply_cache_section},
    {"Topology", topology_section},
};

bool is_wanted(const Section& section, const resp::Request& request) {
  if (request.size() == 1) return section.by_default;
  for (std::size_t i = 1; i < request.size(); ++i) {
    if (command::equals_ignoring_case(request[i], section.name) ||
        command::equals_ignoring_case(request[i], "all") ||
        command::equals_ignoring_case(request[i], "everything") ||
        (command::equals_ignoring_case(request[i], "default") && section.by_default)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string info_report(const AdminContext& context, const resp::Request& request,
                        const std::vector<NodeReport>& nodes) {
  std::string out;
  Lines lines(out);
  const Report report{context, nodes};
  for (const Section& section : kSections) {
    if (!is_wanted(section, request)) continue;
    fmt::format_to(std::back_inserter(out), "{}# {}\r\n", out.empty() ? "" : "\r\n", section.name);
    section.write(lines, report);
  }
  return out;
}

}  // namespace penstock::admin
