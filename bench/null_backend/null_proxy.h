// The whole data path of one worker, or of two that share their pipes, without sockets and without
// Redis: clients' bytes are handed to sessions, pipes' bytes are answered at once with canned
// replies. For counting what our own code costs per command, both directions included.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/admin/local_commands.h"
#include "penstock/session/session_table.h"

namespace penstock::bench {

// True while the proxy's own code runs, as opposed to the bench around it.
extern bool counting;

// A node that takes everything and answers: GET with `value`, MGET with as many, else OK or 1.
class NullNode {
 public:
  explicit NullNode(std::string value) : value_(std::move(value)) {}
  // The replies to whole requests in `bytes`.
  std::string answer(std::string_view bytes);

 private:
  std::string value_;
};

class NullProxy {
 public:
  // `nodes`: masters that share the slots; `value`: what every GET gives. With shared pipes there
  // are two workers, which divide clients and pipes between them.
  NullProxy(std::size_t nodes, std::size_t clients, const std::string& value, bool shared);
  ~NullProxy();

  // Every client sends `bytes`; the proxy forwards, the nodes answer, the proxy replies. The parts
  // that are the proxy's own are counted when run under callgrind.
  void round(std::string_view bytes);
  // Under callgrind: what was counted so far is of no interest.
  void forget_instructions();
  std::uint64_t reply_bytes() const;
  std::uint64_t sends() const;

 private:
  class Reactor;
  struct Worker;

  void add_worker();
  void settle();

  config::Config config_;
  command::CommandTable commands_;
  std::unique_ptr<Reactor> reactor_;  // of all workers: there are no threads
  net::Resolver resolver_;
  sharding::Exchange exchange_;
  cache::ReplyCache cache_{1 << 20, 2, 1};
  cache::TrackingOptions tracking_;
  admin::ServerView view_;
  std::shared_ptr<const cluster::Topology> topology_;
  std::unique_ptr<admin::LocalCommands> local_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace penstock::bench
