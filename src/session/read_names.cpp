// Reads requests for the reply cache.
// SPDX-License-Identifier: Apache-2.0
#include "session/read_names.h"

#include "penstock/cluster/hash_slot.h"
#include "penstock/command/key_finder.h"
#include "penstock/resp/number.h"

namespace penstock::session {

static_assert(cache::kSlots == cluster::kSlots && cache::kNoSlot == cluster::kNoSlot);

std::optional<PlainSet> plain_set(const resp::Request& set) {
  const auto is = [&](std::size_t i, std::string_view word) {
    return command::equals_ignoring_case(set[i], word);
  };
  PlainSet plain;
  if (set.size() == 3 && is(0, "set")) return plain;
  const bool option = set.size() == 5 && is(0, "set");
  const bool own_name = set.size() == 4;
  if (!option && !own_name) return std::nullopt;
  const bool seconds = option ? is(3, "ex") : is(0, "setex");
  if (!seconds && !(option ? is(3, "px") : is(0, "psetex"))) return std::nullopt;
  if (own_name) plain.value = 3;
  constexpr std::int64_t kLongest = std::int64_t{1} << 40;
  if (!resp::parse_integer(set[option ? 4 : 2], plain.milliseconds) ||
      plain.milliseconds <= 0 || plain.milliseconds > kLongest) {
    return std::nullopt;
  }
  if (seconds) plain.milliseconds *= 1000;
  return plain;
}

resp::Request ReadNames::parse(std::string_view request) {
  scanner_.reset();
  scanner_.scan(request, {});
  return scanner_.request(request);
}

cache::NamedRead ReadNames::read_of_get(const resp::Request& request, std::size_t key,
                                        cache::ViewId view) const {
  const std::uint64_t hash = cache_.hash(request[key]);
  return {.key = request[key],
          .name = {hash, get_.index, view, arguments_of(request, key, key)},
          .slot = cluster::hash_slot(request[key])};
}

std::span<const cache::NamedRead> ReadNames::reads(std::string_view request, cache::ViewId view) {
  const resp::Request parsed = parse(request);
  const command::Command& command = *commands_.find(parsed[0]);
  reads_.clear();
  if (command.handling == command::Handling::split_values) {
    for (std::size_t i = 1; i < parsed.size(); ++i) {
      reads_.push_back(read_of_get(parsed, i, view));
      reads_.back().in_array = true;
    }
    return reads_;
  }
  reads_.push_back({.key = parsed[1],
                    .name = name_of(cache_.hash(parsed[1]), command, view, parsed),
                    .slot = cluster::hash_slot(parsed[1]),
                    .of_fields = command.cached == command::Cached::fields});
  return reads_;
}

// The bytes that set a value are those that GET answers.
std::optional<cache::NamedWrite> ReadNames::write(std::string_view request, cache::ViewId view) {
  const resp::Request set = parse(request);
  const std::optional<PlainSet> plain = plain_set(set);
  if (!plain) return std::nullopt;
  const cache::NamedRead get = read_of_get(set, 1, view);
  return cache::NamedWrite{.key = get.key,
                           .name = get.name,
                           .slot = get.slot,
                           .frame = arguments_of(set, plain->value, plain->value),
                           .milliseconds = plain->milliseconds};
}

}  // namespace penstock::session
