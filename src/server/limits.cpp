// What the machine gives: descriptors and memory.
// SPDX-License-Identifier: Apache-2.0
#include "server/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

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

std::size_t memory_limit(std::uint64_t configured) {
  if (configured > 0) return configured;
  std::uint64_t bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  // The cgroup's limit reads "max" where there is none, which is no number.
  std::ifstream cgroup("/sys/fs/cgroup/memory.max");
  if (std::uint64_t most = 0; cgroup >> most) bytes = std::min(bytes, most);
  return bytes / 10 * 6;
}

}  // namespace penstock::server
