// The daemon: builds the parts from the configuration, hands them to each other, runs until told to
// stop. main() constructs it and calls run().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "penstock/config/config.h"

namespace penstock::server {

// Leaves the signals that Server::run() handles to it alone. To be called before any thread starts,
// because each inherits it.
void block_signals();

class Server {
 public:
  // Opens the listening sockets and starts the workers. Throws std::runtime_error with one line.
  explicit Server(const config::Config& config);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Serves until SIGTERM or SIGINT, then drains; returns the exit status. A second signal ends it
  // at once. SIGUSR1 opens the log file again.
  int run();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace penstock::server
