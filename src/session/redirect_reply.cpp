// Reads error replies that prove that a command did not run.
// SPDX-License-Identifier: Apache-2.0
#include "session/redirect_reply.h"

#include <charconv>

namespace penstock::session {
namespace {

struct Text {
  Refusal refusal;
  std::string_view code;   // with the blank behind it
  std::string_view whole;  // up to what varies
};

// Every text that a 7.0 to 9.0 server has for these codes.
constexpr Text kTexts[] = {
    {Refusal::moved, "-MOVED ", "-MOVED "},
    {Refusal::ask, "-ASK ", "-ASK "},
    {Refusal::tryagain, "-TRYAGAIN ",
     "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"},
    {Refusal::clusterdown, "-CLUSTERDOWN ", "-CLUSTERDOWN The cluster is down\r\n"},
    {Refusal::clusterdown, "-CLUSTERDOWN ",
     "-CLUSTERDOWN The cluster is down and only accepts read commands\r\n"},
    {Refusal::clusterdown, "-CLUSTERDOWN ", "-CLUSTERDOWN Hash slot not served\r\n"},
    {Refusal::loading, "-LOADING ", "-LOADING Redis is loading the dataset in memory\r\n"},
    {Refusal::loading, "-LOADING ", "-LOADING Valkey is loading the dataset in memory\r\n"},
    {Refusal::readonly, "-READONLY ", "-READONLY You can't write against a read only replica.\r\n"},
    {Refusal::masterdown, "-MASTERDOWN ",
     "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"},
};

}  // namespace

Refusal refusal_of(std::string_view frame, bool exact) {
  for (const Text& text : kTexts) {
    if (frame.starts_with(exact ? text.whole : text.code)) return text.refusal;
  }
  return Refusal::none;
}

std::optional<Redirect> parse_redirect(std::string_view frame) {
  frame = frame.substr(0, frame.find('\r'));
  const std::size_t first = frame.find(' ');
  const std::size_t second = frame.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
  const std::string_view slot_text = frame.substr(first + 1, second - first - 1);
  const std::string_view address = frame.substr(second + 1);
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  Redirect redirect{};
  const auto parse = [](std::string_view text, std::uint16_t& value) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end;
  };
  if (!parse(slot_text, redirect.slot) || redirect.slot >= cluster::kSlots ||
      !parse(address.substr(colon + 1), redirect.target.port) || redirect.target.port == 0) {
    return std::nullopt;
  }
  redirect.target.host = address.substr(0, colon);
  if (redirect.target.host == "?") redirect.target.host.clear();
  return redirect;
}

}  // namespace penstock::session
