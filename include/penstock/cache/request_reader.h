// What the cache has to know of a request that passes a pipe. Implemented where commands are known.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "penstock/cache/reply_cache.h"

namespace penstock::cache {

// One key that a request reads. Views are of the request.
struct NamedRead {
  std::string_view key;
  ReadName name;
  Slot slot = 0;
  bool of_fields = false;  // of a hash: its fields may expire one by one
  bool in_array = false;   // its reply is one element of the request's
};

// A write whose value is what a read answers afterwards.
struct NamedWrite {
  static constexpr std::int64_t kForEver = -1;  // as PTTL says it

  std::string_view key;
  ReadName name;
  Slot slot = 0;
  std::string_view frame;  // what the read answers
  std::int64_t milliseconds = kForEver;
};

class RequestReader {
 public:
  virtual ~RequestReader() = default;

  // Good until the next call.
  virtual std::span<const NamedRead> reads(std::string_view request, ViewId view) = 0;
  virtual std::optional<NamedWrite> write(std::string_view request, ViewId view) = 0;
};

}  // namespace penstock::cache
