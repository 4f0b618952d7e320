// Everything one worker counts. Written by its worker only, read by any thread.
// INFO and the tests read these same counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "penstock/stats/counter.h"
#include "penstock/stats/histogram.h"

namespace penstock::stats {

inline constexpr std::size_t kCommandsMax = 1024;  // size of the command table, with room to learn

// Error codes that are counted by name; all others are "other", the last.
inline constexpr std::array<std::string_view, 27> kErrorCodes{
    "ERR", "WRONGTYPE", "NOAUTH", "WRONGPASS", "NOPERM", "NOPROTO", "CROSSSLOT", "CLUSTERDOWN",
    "TRYAGAIN", "LOADING", "READONLY", "MOVED", "ASK", "MASTERDOWN", "NOSCRIPT", "BUSY", "OOM",
    "MISCONF", "NOREPLICAS", "EXECABORT", "BUSYGROUP", "NOGROUP", "BUSYKEY", "UNKILLABLE",
    "NOTBUSY", "INPROG", "other"};

struct CommandStats {
  Counter calls, usec, failed;
};

struct WorkerStats {
  // Clients.
  Counter clients;  // connected now
  Counter clients_accepted, clients_closed, clients_rejected, clients_closed_output,
      clients_closed_query, clients_closed_idle, clients_closed_memory, protocol_errors;
  // Commands.
  Counter commands, in_flight, split_commands, split_parts;
  std::array<CommandStats, kCommandsMax> by_command;
  std::array<Counter, kErrorCodes.size()> errors;  // error replies to clients
  // What went another way than straight.
  Counter moved, ask, tryagain, clusterdown, loading, readonly, masterdown;
  Counter retries, outcome_unknown, timed_out, not_sent;
  Counter stalled_order, stalled_pipe, stalled_in_flight, stalled_output;
  // Shared pipes: requests and replies handed to other workers, in how many batches, and how often
  // the other one had to be woken; sessions that changed their pipes.
  Counter handed_over, handed_back, batches_handed_over, wakes, pipe_switches;
  // Reply cache. Reads that could have been kept: answered from it, by another read's reply, or by
  // a node. Replies kept of reads and of own writes; asked for and not kept, because something came
  // in between or the key is absent. Entries dropped, by why; what the nodes announced.
  Counter cache_hits, cache_joined, cache_misses;
  Counter cache_writes;  // of keys, by clients
  Counter cache_fills, cache_writes_kept, cache_void, cache_absent;
  Counter cache_dropped_written, cache_dropped_announced, cache_slots_forgotten, cache_flushes;
  Counter cache_pushes, cache_keys_announced;
  Counter cache_trackers, cache_trackers_up;  // now
  // For the sharding experiment: receives from clients and the CPU that the worker's thread has
  // used, brought up to date every 50 ms; how often a look at some session found requests in
  // flight, and more than one of them.
  Counter client_receives, cpu_us, looks_in_flight, looks_pipelining;
  // Microseconds: from reading a request to handing over its reply; the node's part of it (from
  // queueing it to reading the reply); what it waited in the proxy besides.
  Histogram latency, backend_latency, proxy_latency;
  Histogram turn_time;  // from the end of one wait to the beginning of the next
  Counter buffer_bytes, buffer_bytes_cached;

  // Makes what the histograms have recorded visible; at the end of a turn.
  void flush() {
    latency.flush();
    backend_latency.flush();
    proxy_latency.flush();
    turn_time.flush();
  }
  void count_error(std::string_view frame);
};

}  // namespace penstock::stats
