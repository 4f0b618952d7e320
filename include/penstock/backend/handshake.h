// What is said on a new connection to a node before any user's request: HELLO or AUTH, and a name.
// Sent as one batch; user traffic starts only when every answer is there and none is an error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "penstock/resp/reply_writer.h"

namespace penstock::backend {

struct Credentials {
  std::string username, password, client_name;
};

class Handshake {
 public:
  enum class Status : std::uint8_t { running, done, refused };

  // Starts over, for a new connection.
  void begin(resp::Protocol protocol, const Credentials& credentials);

  std::string_view bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }
  // Takes the next answer. `refused`: refusal() has the node's words.
  Status on_reply(std::string_view frame);
  const std::string& refusal() const { return refusal_; }

 private:
  std::string bytes_;
  std::string refusal_;
  unsigned answers_due_ = 0;
};

}  // namespace penstock::backend
