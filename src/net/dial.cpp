// Connects a blocking socket within a time limit.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/dial.h"

#include <sys/time.h>
#include <unistd.h>

#include <cerrno>

namespace penstock::net {

// SO_SNDTIMEO bounds connect(2) too (socket(7)).
int dial(const Address& address, std::chrono::milliseconds timeout) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const timeval limit{timeout.count() / 1000, timeout.count() % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (::connect(fd, address.get(), address.length) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace penstock::net
