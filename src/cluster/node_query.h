// A blocking exchange with one node: sends commands, reads one reply frame for each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cluster {

class NodeQuery {
 public:
  // Owns the socket, whose own timeouts bound every step.
  explicit NodeQuery(int fd) : fd_(fd) {}
  NodeQuery(const NodeQuery&) = delete;
  NodeQuery& operator=(const NodeQuery&) = delete;
  ~NodeQuery();

  bool send(const std::vector<std::vector<std::string>>& commands);
  // The next whole reply frame; none when the node closed, was silent or sent no reply.
  std::optional<std::string> read();

 private:
  int fd_;
  std::string buffer_;
};

}  // namespace penstock::cluster
