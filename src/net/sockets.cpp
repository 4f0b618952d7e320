// Listening sockets and the options of connected ones.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/sockets.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "penstock/net/address.h"

namespace penstock::net {
namespace {

// One second in all.
constexpr int kBindRetries = 20;
constexpr std::chrono::milliseconds kBindPause{50};

constexpr int kProbes = 3;  // unanswered ones that end a connection

[[noreturn]] void fail(const std::string& address, const char* what) {
  throw std::runtime_error(fmt::format("cannot listen on {}: {}", address, what));
}

void set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

Address resolve_listener(const std::string& text) {
  const std::optional<HostPort> parts = parse_host_port(text);
  if (!parts) fail(text, "not host:port");
  if (const auto numeric = numeric_address(parts->host, parts->port)) return *numeric;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(parts->host.c_str(), std::to_string(parts->port).c_str(), &hints,
                                &found);
  if (error != 0) fail(text, gai_strerror(error));
  Address out;
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  out.length = found->ai_addrlen;
  freeaddrinfo(found);
  return out;
}

// A socket file that nobody listens on any more is in the way.
void remove_stale(const Address& address, const std::string& path) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool refused = ::connect(fd, address.get(), address.length) != 0 && errno == ECONNREFUSED;
  ::close(fd);
  if (refused) ::unlink(path.c_str());
}

Address listener_address(const std::string& text) {
  constexpr std::string_view kUnix = "unix:";
  if (!text.starts_with(kUnix)) return resolve_listener(text);
  const std::string path = text.substr(kUnix.size());
  const std::optional<Address> address = unix_address(path);
  if (!address) fail(text, "the path is too long");
  remove_stale(*address, path);
  return *address;
}

// The kernel takes a moment to close the sockets of a killed predecessor's io_uring.
bool bind_patiently(int fd, const Address& address) {
  for (int attempt = 0; ::bind(fd, address.get(), address.length) != 0; ++attempt) {
    if (errno != EADDRINUSE || attempt == kBindRetries) return false;
    std::this_thread::sleep_for(kBindPause);
  }
  return true;
}

}  // namespace

int open_listening_socket(const std::string& text, int backlog) {
  const Address address = listener_address(text);
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) fail(text, std::strerror(errno));
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (address.family() != AF_UNIX) set(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // inherited
  if (!bind_patiently(fd, address) || ::listen(fd, backlog) != 0) {
    const int error = errno;
    ::close(fd);
    fail(text, std::strerror(error));
  }
  return fd;
}

bool has_unsent_bytes(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

void set_client_options(int fd, std::chrono::microseconds keepalive) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(keepalive).count();
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (seconds == 0) return;
  const int interval = static_cast<int>(std::max<std::int64_t>(seconds / kProbes, 1));
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(seconds));
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

void set_node_options(int fd, std::chrono::microseconds keepalive) {
  set_client_options(fd, keepalive);
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(keepalive * kProbes).count();
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit));
}

}  // namespace penstock::net
