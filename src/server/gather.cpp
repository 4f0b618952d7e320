// Runs a job on every worker.
// SPDX-License-Identifier: Apache-2.0
#include "server/gather.h"

#include <utility>

namespace penstock::server {
namespace {

// Touched by the asking worker only: the others post their parts to it.
struct Gathering {
  admin::GatherJob job;
  std::vector<std::string> parts;
  std::size_t missing;
  std::function<void(std::string)> done;
};

}  // namespace

void gather(const Workers& workers, admin::GatherJob job, std::size_t asker,
            std::function<void(std::string)> done) {
  auto gathering = std::make_shared<Gathering>(
      Gathering{std::move(job), std::vector<std::string>(workers.size()), workers.size(),
                std::move(done)});
  Worker& home = *workers[asker];
  for (std::size_t i = 0; i < workers.size(); ++i) {
    Worker& worker = *workers[i];
    worker.post([&worker, &home, gathering, i] {
      std::string part = gathering->job.collect(worker.sessions());
      home.post([gathering, i, part = std::move(part)]() mutable {
        gathering->parts[i] = std::move(part);
        if (--gathering->missing == 0) gathering->done(gathering->job.merge(gathering->parts));
      });
    });
  }
}

}  // namespace penstock::server
