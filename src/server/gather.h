// Runs a job on every worker and brings the merged text back to the worker that asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/admin/local_commands.h"
#include "server/worker.h"

namespace penstock::server {

using Workers = std::vector<std::unique_ptr<Worker>>;

// `done` runs on worker `asker`, in some later turn.
void gather(const Workers& workers, admin::GatherJob job, std::size_t asker,
            std::function<void(std::string)> done);

}  // namespace penstock::server
