// What is said on a new connection to a node.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/backend/handshake.h"

#include <algorithm>
#include <initializer_list>

namespace penstock::backend {
namespace {

// It goes into the log and into errors that clients get.
constexpr std::size_t kRefusalMax = 200;

void append_command(std::string& out, std::initializer_list<std::string_view> words) {
  std::size_t count = 0;
  for (const std::string_view word : words) count += word.empty() ? 0 : 1;
  out += "*" + std::to_string(count) + "\r\n";
  for (const std::string_view word : words) {
    if (word.empty()) continue;
    out += "$" + std::to_string(word.size()) + "\r\n";
    out += word;
    out += "\r\n";
  }
}

}  // namespace

void Handshake::begin(resp::Protocol protocol, const Credentials& credentials) {
  bytes_.clear();
  refusal_.clear();
  answers_due_ = 0;
  if (!credentials.password.empty()) {
    append_command(bytes_, {"AUTH", credentials.username, credentials.password});
    ++answers_due_;
  }
  if (protocol == resp::Protocol::resp3) {
    append_command(bytes_, {"HELLO", "3"});
    ++answers_due_;
  }
  if (!credentials.client_name.empty()) {
    append_command(bytes_, {"CLIENT", "SETNAME", credentials.client_name});
    ++answers_due_;
  }
}

Handshake::Status Handshake::on_reply(std::string_view frame) {
  --answers_due_;
  if (frame[0] == '-' || frame[0] == '!') {
    refusal_ = frame.substr(1, std::min(frame.find_first_of("\r\n"), kRefusalMax) - 1);
    for (char& c : refusal_) c = c >= ' ' && c <= '~' ? c : '?';
    return Status::refused;
  }
  return answers_due_ == 0 ? Status::done : Status::running;
}

}  // namespace penstock::backend
