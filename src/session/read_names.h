// The names under which replies are kept, from the requests that ask for them. One per worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "penstock/cache/request_reader.h"
#include "penstock/command/command_table.h"
#include "penstock/resp/reply_writer.h"
#include "penstock/resp/request.h"
#include "penstock/resp/request_scanner.h"

namespace penstock::session {

// Arguments `first` to `last` of a request as they stand in its frame, with their lengths.
inline std::string_view arguments_of(const resp::Request& request, std::size_t first,
                                     std::size_t last) {
  const std::string_view before = request[first - 1], end = request[last];
  const char* const begin = before.data() + before.size() + 2;
  return {begin, static_cast<std::size_t>(end.data() + end.size() + 2 - begin)};
}

// The view of a worker's own pipes, or of the shared ones (no worker).
inline cache::ViewId view_of(std::optional<std::uint16_t> worker, resp::Protocol protocol) {
  const unsigned other = protocol == resp::Protocol::resp3 ? 1 : 0;
  return static_cast<cache::ViewId>(worker ? *worker * 2U + other : 0x8000U + other);
}

// Of a read of one key, which is its first argument.
inline cache::ReadName name_of(std::uint64_t hash, const command::Command& command,
                               cache::ViewId view, const resp::Request& request) {
  return {hash, command.index, view, arguments_of(request, 1, request.size() - 1)};
}

// SET key value, SET key value EX|PX number, SETEX and PSETEX key number value: the argument with
// the value, and for how long it stands. With any other option only the node knows the outcome.
struct PlainSet {
  std::size_t value = 2;
  std::int64_t milliseconds = cache::NamedWrite::kForEver;
};
std::optional<PlainSet> plain_set(const resp::Request& set);

class ReadNames final : public cache::RequestReader {
 public:
  ReadNames(const cache::ReplyCache& cache, const command::CommandTable& commands)
      : cache_(cache), commands_(commands), get_(*commands.find("get")) {}

  std::span<const cache::NamedRead> reads(std::string_view request, cache::ViewId view) override;
  std::optional<cache::NamedWrite> write(std::string_view request, cache::ViewId view) override;

 private:
  resp::Request parse(std::string_view request);
  cache::NamedRead read_of_get(const resp::Request& request, std::size_t key,
                               cache::ViewId view) const;

  const cache::ReplyCache& cache_;
  const command::CommandTable& commands_;
  const command::Command& get_;
  resp::RequestScanner scanner_;
  std::vector<cache::NamedRead> reads_;
};

}  // namespace penstock::session
