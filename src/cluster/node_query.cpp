// A blocking exchange with one node.
// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_query.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/resp/reply_scanner.h"

namespace penstock::cluster {
namespace {

// CLUSTER NODES of a thousand nodes is about 200 KB; anything far beyond is no topology.
constexpr std::size_t kReplyBytesMax = 16 << 20;

}  // namespace

NodeQuery::~NodeQuery() { ::close(fd_); }

bool NodeQuery::send(const std::vector<std::vector<std::string>>& commands) {
  std::string out;
  for (const auto& command : commands) {
    out += "*" + std::to_string(command.size()) + "\r\n";
    for (const std::string& word : command) {
      out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    }
  }
  for (std::size_t sent = 0; sent < out.size();) {
    const ssize_t n = ::send(fd_, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

bool NodeQuery::wait_for_bytes() {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline_ - std::chrono::steady_clock::now());
  pollfd wanted{fd_, POLLIN, 0};
  return left > milliseconds(0) && ::poll(&wanted, 1, static_cast<int>(left.count())) > 0;
}

std::optional<std::string> NodeQuery::read() {
  resp::ReplyScanner scanner;
  while (true) {
    const resp::ScanStatus status = scanner.scan(buffer_);
    if (status == resp::ScanStatus::complete) {
      std::string frame = buffer_.substr(0, scanner.frame_size());
      buffer_.erase(0, scanner.frame_size());
      return frame;
    }
    if (status == resp::ScanStatus::error || buffer_.size() > kReplyBytesMax) return std::nullopt;
    if (!wait_for_bytes()) return std::nullopt;
    char bytes[16384];
    const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (n <= 0) return std::nullopt;
    buffer_.append(bytes, static_cast<std::size_t>(n));
  }
}

void log_in_first(std::vector<std::vector<std::string>>& commands, const std::string& username,
                  const std::string& password) {
  if (password.empty()) return;
  std::vector<std::string> auth{"AUTH", username, password};
  std::erase(auth, "");
  commands.insert(commands.begin(), auth);
}

}  // namespace penstock::cluster
