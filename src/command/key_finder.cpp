// Finds a command's keys, as db.c does: by key specifications, and by a function of its own where
// these are incomplete (SORT, MIGRATE) or where the server reads them otherwise (GEORADIUS, XREAD).
// SPDX-License-Identifier: Apache-2.0
#include "penstock/command/key_finder.h"

#include <algorithm>
#include <optional>

namespace penstock::command {
namespace {

using Index = std::int64_t;  // of an argument; negative while a rule is being applied

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

std::string_view at(const resp::Request& request, Index index) {
  return request[static_cast<std::size_t>(index)];
}

// Where the keys of one specification start; none when its keyword is not there.
std::optional<Index> begin_of(const KeySpec& spec, const resp::Request& request) {
  if (spec.begin == KeySpec::Begin::index) return spec.first;
  const Index count = static_cast<Index>(request.size());
  const Index start = spec.first > 0 ? spec.first : count + spec.first;
  const Index step = spec.first > 0 ? 1 : -1;
  const Index stop = spec.first > 0 ? count - 1 : 1;
  for (Index i = start; i != stop && i > 0 && i < count; i += step) {
    if (equals_ignoring_case(at(request, i), spec.keyword)) return i + 1;
  }
  return std::nullopt;
}

// A count of keys, read as atoi() reads it, which also cuts it to 32 bits: the server routes by
// "3x" before it complains of it.
Index lenient_count(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size() && (text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r'))) ++i;
  const bool negative = i < text.size() && text[i] == '-';
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  Index minus = 0;  // the number below zero, where there is room for one more
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    const Index digit = text[i] - '0';
    minus = minus < (INT64_MIN + digit) / 10 ? INT64_MIN : minus * 10 - digit;
  }
  const Index plus = minus == INT64_MIN ? INT64_MAX : -minus;
  return static_cast<std::int32_t>(negative ? minus : plus);
}

struct Range {
  Index first, last, step;
};

std::optional<Range> range_of(const KeySpec& spec, Index first, const resp::Request& request) {
  const Index count = static_cast<Index>(request.size());
  if (spec.find == KeySpec::Find::keynum) {
    if (first + spec.count_at >= count) return std::nullopt;
    const Index keys = lenient_count(at(request, first + spec.count_at));
    if (keys < 1 || keys > count) return std::nullopt;
    first += spec.keys_at;
    return Range{first, first + (keys - 1) * spec.step, spec.step};
  }
  if (spec.last >= 0) return Range{first, first + spec.last, spec.step};
  if (spec.limit <= 1) return Range{first, count + spec.last, spec.step};
  return Range{first, first + (count - first) / spec.limit + spec.last, spec.step};
}

bool add_range(const Range& range, std::string_view flags, const resp::Request& request,
               std::vector<KeyPosition>& keys) {
  const Index count = static_cast<Index>(request.size());
  if (range.last < range.first) return range.last == range.first - range.step;  // no keys
  if (range.last >= count) return false;
  for (Index i = range.first; i <= range.last; i += range.step) {
    keys.push_back({static_cast<std::uint32_t>(i), flags});
  }
  return true;
}

// SORT key [BY pattern] [LIMIT a b] [GET pattern ...] [STORE destination]; the last STORE counts.
void add_sort_destination(const resp::Request& request, std::vector<KeyPosition>& keys) {
  std::size_t destination = 0;
  for (std::size_t i = 2; i < request.size(); ++i) {
    if (equals_ignoring_case(request[i], "limit")) {
      i += 2;
    } else if (equals_ignoring_case(request[i], "get") || equals_ignoring_case(request[i], "by")) {
      i += 1;
    } else if (equals_ignoring_case(request[i], "store") && i + 1 < request.size()) {
      destination = ++i;
    }
  }
  if (destination > 0) keys.push_back({static_cast<std::uint32_t>(destination), "OW update"});
}

// GEORADIUS key ... [STORE destination] [STOREDIST destination]: the last of them counts.
void find_georadius_keys(const resp::Request& request, std::vector<KeyPosition>& keys) {
  std::size_t destination = 0;
  for (std::size_t i = 5; i + 1 < request.size(); ++i) {
    if (equals_ignoring_case(request[i], "store") ||
        equals_ignoring_case(request[i], "storedist")) {
      destination = ++i;
    }
  }
  keys.push_back({1, "RO access"});
  if (destination > 0) keys.push_back({static_cast<std::uint32_t>(destination), "OW update"});
}

// XREAD and XREADGROUP: where STREAMS is, behind options and their arguments; 0: not there. STREAMS
// may also be the name of a group or of a stream.
std::size_t find_streams(const resp::Request& request, bool& blocks) {
  for (std::size_t i = 1; i < request.size(); ++i) {
    if (equals_ignoring_case(request[i], "streams")) return i;
    if (equals_ignoring_case(request[i], "block")) {
      blocks = true;
      i += 1;
    } else if (equals_ignoring_case(request[i], "count")) {
      i += 1;
    } else if (equals_ignoring_case(request[i], "group")) {
      i += 2;
    } else if (!equals_ignoring_case(request[i], "noack")) {
      return 0;
    }
  }
  return 0;
}

// One ID for each stream: without as many of them as streams, there are no keys.
bool find_xread_keys(const resp::Request& request, std::vector<KeyPosition>& keys) {
  bool blocks = false;
  const std::size_t streams = find_streams(request, blocks);
  const std::size_t rest = request.size() - streams - 1;
  if (streams == 0 || rest == 0 || rest % 2 != 0) return false;
  for (std::size_t i = 1; i <= rest / 2; ++i) {
    keys.push_back({static_cast<std::uint32_t>(streams + i), "RO access"});
  }
  return true;
}

// SET ... GET also reads the key.
std::string_view set_flags(const resp::Request& request) {
  return has_option(request, 3, "get") ? "RW access update" : "OW update";
}

// BITFIELD with nothing but GET only reads the key.
std::string_view bitfield_flags(const resp::Request& request) {
  for (std::size_t i = 2; i < request.size();) {
    const std::size_t more = request.size() - i - 1;
    if (equals_ignoring_case(request[i], "get") && more >= 2) {
      i += 3;
    } else if (equals_ignoring_case(request[i], "overflow") && more >= 1) {
      i += 2;
    } else {
      return "RW access update";
    }
  }
  return "RO access";
}

// MIGRATE host port key|"" db timeout [...] [KEYS key ...]
void find_migrate_keys(const resp::Request& request, std::vector<KeyPosition>& keys) {
  constexpr std::string_view kFlags = "RW access delete";
  if (request.size() < 4) return;
  for (std::size_t i = 6; i < request.size() && request[3].empty(); ++i) {
    if (!equals_ignoring_case(request[i], "keys")) continue;
    while (++i < request.size()) keys.push_back({static_cast<std::uint32_t>(i), kFlags});
    return;
  }
  keys.push_back({3, kFlags});
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool has_option(const resp::Request& request, std::size_t first, std::string_view option) {
  for (std::size_t i = first; i < request.size(); ++i) {
    if (equals_ignoring_case(request[i], option)) return true;
  }
  return false;
}

bool reads_blocking(const resp::Request& request) {
  bool blocks = false;
  find_streams(request, blocks);
  return blocks;
}

std::string_view key_flags(const Command& command, const resp::Request& request,
                           const KeyPosition& key) {
  if (command.name == "set") return set_flags(request);
  if (command.name == "bitfield") return bitfield_flags(request);
  return key.flags;
}

bool find_keys(const Command& command, const resp::Request& request,
               std::vector<KeyPosition>& keys) {
  keys.clear();
  if (command.name == "migrate") {
    find_migrate_keys(request, keys);
    return true;
  }
  if (command.name == "georadius" || command.name == "georadiusbymember") {
    find_georadius_keys(request, keys);
    return true;
  }
  if (command.handling == Handling::xread) return find_xread_keys(request, keys);
  for (const KeySpec& spec : command.keys()) {
    if (spec.begin == KeySpec::Begin::unknown) continue;
    const std::optional<Index> first = begin_of(spec, request);
    if (!first) continue;
    const std::optional<Range> range = range_of(spec, *first, request);
    if (!range || !add_range(*range, spec.flags, request, keys)) {
      keys.clear();
      return false;
    }
  }
  if (command.name == "sort") add_sort_destination(request, keys);
  return true;
}

}  // namespace penstock::command
