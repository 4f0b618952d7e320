// Reads that several clients of a worker may wait for: the first one's request goes out, those that
// ask for the same before its reply is there get it, too. The request belongs to none of them, so
// that none of them can take it along when it goes. A bounded table; belongs to one worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/reply_sink.h"
#include "penstock/cache/reply_cache.h"
#include "session/session_index.h"

namespace penstock::session {

class SharedReads {
 public:
  struct Read {
    cache::ReadName name;   // its arguments are in `arguments`
    std::string arguments;
    cache::Claim as_sent{};  // own writes up to then are seen by it, later ones need not be
    std::uint32_t generation = 0;
    bool under_way = false;
    bool begun_reply = false;  // too late to join
    std::vector<backend::ReplyToken> waiting{};
  };

  // `sessions`: gets each reply once for every client that waits for it.
  SharedReads(backend::ReplySink& sessions, SessionIndex& index, std::uint16_t worker)
      : sessions_(sessions), index_(index), worker_(worker) {}

  static bool owns(const backend::ReplyToken& token) { return token.session == kSession; }

  // The place of reads with this name; another one may be under way there.
  Read& place_of(const cache::ReadName& name);
  static bool is(const Read& read, const cache::ReadName& name) {
    return read.under_way && read.name.command == name.command && read.name.view == name.view &&
           read.arguments == name.arguments;
  }
  // A number for the places of those who wait: never 0.
  std::uint32_t mark_of(const Read& read) const {
    return static_cast<std::uint32_t>(&read - reads_.data()) + 1;
  }

  // Begins a read in a free place; what the request is to be sent under.
  backend::ReplyToken begin(Read& read, const cache::ReadName& name, const cache::Claim& as_sent);

  // What a pipe says of such a request.
  void on_reply(const backend::ReplyToken& token, std::string_view frame,
                const backend::RequestTimes& times, const net::HostPort& node);
  void on_error(const backend::ReplyToken& token, std::string_view frame,
                const backend::TakenRequest& request, const net::HostPort& node);
  void on_reply_piece(const backend::ReplyToken& token, std::string_view piece, bool last,
                      const net::HostPort& node);
  void on_lost(const backend::ReplyToken& token, backend::Lost why,
               const backend::TakenRequest& request, const net::HostPort& node,
               std::string_view trouble);

 private:
  static constexpr std::uint32_t kSession = backend::ReplyToken::kNobody - 1;
  static constexpr std::size_t kReads = 1024;

  Read* find(const backend::ReplyToken& token);
  const std::vector<backend::ReplyToken>& end(Read& read);
  bool may_repeat(const backend::ReplyToken& token);

  backend::ReplySink& sessions_;
  SessionIndex& index_;
  const std::uint16_t worker_;
  std::vector<backend::ReplyToken> told_;  // those that waited for the read that ended last
  std::vector<Read> reads_;  // none before the first one is asked for
};

}  // namespace penstock::session
