// What the machine gives: descriptors and memory.
// SPDX-License-Identifier: Apache-2.0
#include "server/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "penstock/log/log.h"

namespace penstock::server {

void raise_descriptor_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < wanted) {
    spdlog::warn("only {} files may be open, {} are wanted for server.max_clients: raise "
                 "LimitNOFILE", limit.rlim_cur, wanted);
  }
}

namespace {

// A limit reads "max" where there is none, which is no number.
std::uint64_t read_limit(const std::string& file) {
  std::ifstream in(file);
  std::uint64_t bytes = 0;
  return in >> bytes ? bytes : UINT64_MAX;
}

// The least limit of the process's control group and those around it (version 2, or 1).
std::uint64_t cgroup_limit() {
  std::uint64_t least = std::min(read_limit("/sys/fs/cgroup/memory.max"),
                                 read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/'))) {
      least = std::min(least, read_limit("/sys/fs/cgroup" + path + "/memory.max"));
    }
  }
  return least;
}

}  // namespace

std::size_t memory_limit(std::uint64_t configured) {
  if (configured > 0) return configured;
  std::uint64_t bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(bytes, cgroup_limit()) / 10 * 6;
}

}  // namespace penstock::server
