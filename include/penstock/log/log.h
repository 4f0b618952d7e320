// The process's log: asynchronous, so that no worker ever waits for a disk or a terminal.
// Messages name nodes and causes, never keys, values or passwords.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace penstock::log {

// Starts logging to `file`, or to standard error when it is empty. Level: trace .. critical, off.
// Throws std::runtime_error when the file cannot be opened.
void start(const std::string& level, const std::string& file);
// Opens the log file again (after a rotation by rename); safe from any thread.
void reopen();
// Writes what is queued and stops.
void stop();

// Lets a burst of messages of one cause through, then one every ten seconds with a count of those
// left out. One static instance per call site; any thread.
class Limiter {
 public:
  // True when the message may be written; `suppressed` is how many were not since the last one.
  bool allow(std::uint64_t& suppressed);

 private:
  std::atomic<std::int64_t> window_start_{0};
  std::atomic<std::uint64_t> in_window_{0};
  std::atomic<std::uint64_t> suppressed_{0};
};

}  // namespace penstock::log

// A message that can come often: limited per call site, which is to say per cause.
#define LOG_LIMITED(level, ...)                                                          \
  do {                                                                                   \
    static ::penstock::log::Limiter limiter;                                             \
    if (std::uint64_t suppressed = 0; limiter.allow(suppressed)) {                       \
      spdlog::level(__VA_ARGS__);                                                        \
      if (suppressed > 0) spdlog::level("... and {} more like this before", suppressed); \
    }                                                                                    \
  } while (false)
