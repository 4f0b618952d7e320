// Counting error replies by their code.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/stats/worker_stats.h"

namespace penstock::stats {

void WorkerStats::count_error(std::string_view frame) {
  const std::string_view code = frame.substr(1, frame.find_first_of(" \r") - 1);
  std::size_t index = 0;
  while (index + 1 < kErrorCodes.size() && kErrorCodes[index] != code) ++index;
  errors[index].add();
}

}  // namespace penstock::stats
