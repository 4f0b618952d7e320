// Sends what the socket takes at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <span>

namespace penstock::net {

// The count taken, or -1 (errno).
inline ssize_t send_now(int fd, std::span<const iovec> bytes) {
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (bytes.size() == 1) return ::send(fd, bytes[0].iov_base, bytes[0].iov_len, kFlags);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(bytes.data());
  message.msg_iovlen = bytes.size();
  return ::sendmsg(fd, &message, kFlags);
}

}  // namespace penstock::net
