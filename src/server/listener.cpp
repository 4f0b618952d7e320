// A listening socket of the proxy.
// SPDX-License-Identifier: Apache-2.0
#include "server/listener.h"

#include <unistd.h>

namespace penstock::server {

ClientListener::~ClientListener() {
  constexpr std::string_view kUnix = "unix:";
  if (address_.starts_with(kUnix)) ::unlink(address_.c_str() + kUnix.size());
  ::close(fd());
}

}  // namespace penstock::server
