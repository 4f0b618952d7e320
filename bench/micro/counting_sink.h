// A sink that only counts the replies it gets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "penstock/backend/reply_sink.h"

namespace penstock::bench {

struct CountingSink final : backend::ReplySink {
  void on_reply(const backend::ReplyToken&, std::string_view, const backend::RequestTimes&,
                const net::HostPort&) override {
    ++replies;
  }
  void on_error(const backend::ReplyToken&, std::string_view, const backend::TakenRequest&,
                const net::HostPort&) override {}
  void on_reply_piece(const backend::ReplyToken&, std::string_view, bool,
                      const net::HostPort&) override {}
  void on_lost(const backend::ReplyToken&, backend::Lost, const backend::TakenRequest&,
               const net::HostPort&, std::string_view) override {}

  std::uint64_t replies = 0;
};

}  // namespace penstock::bench
