// A blocking exchange with one node: sends commands, reads one reply frame for each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cluster {

class NodeQuery {
 public:
  // Owns the socket. All answers together may take `limit`.
  NodeQuery(int fd, std::chrono::milliseconds limit)
      : fd_(fd), deadline_(std::chrono::steady_clock::now() + limit) {}
  NodeQuery(const NodeQuery&) = delete;
  NodeQuery& operator=(const NodeQuery&) = delete;
  ~NodeQuery();

  bool send(const std::vector<std::vector<std::string>>& commands);
  // The next whole reply frame; none when the node closed, was too slow or sent no reply.
  std::optional<std::string> read();

 private:
  bool wait_for_bytes();

  int fd_;
  std::chrono::steady_clock::time_point deadline_;
  std::string buffer_;
};

// Puts an AUTH in front of the commands when there is a password.
void log_in_first(std::vector<std::vector<std::string>>& commands, const std::string& username,
                  const std::string& password);

}  // namespace penstock::cluster
