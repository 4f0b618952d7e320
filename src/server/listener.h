// A listening socket of the proxy: gives each new connection to the worker that has the fewest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "penstock/net/reactor.h"

namespace penstock::server {

class ClientListener final : public net::Listener {
 public:
  ClientListener(int fd, std::string address, std::function<void(int)> accept)
      : Listener(fd), address_(std::move(address)), accept_(std::move(accept)) {}
  ~ClientListener() override;

  const std::string& address() const { return address_; }

 private:
  void on_accepted(int fd) override { accept_(fd); }

  std::string address_;
  std::function<void(int)> accept_;
};

}  // namespace penstock::server
