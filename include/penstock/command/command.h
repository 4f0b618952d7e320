// One command or subcommand: arity, flags, keys, and what the proxy does with it. Facts, no logic.
// Source: the servers' COMMAND reply (redis.io/commands/command) and data/command-policy.toml.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::command {

// What the proxy does with a command; see data/command-policy.toml.
enum class Handling : std::uint8_t {
  by_keys,        // to the owner of its keys' slot, or any master when it has none
  local,          // answered by the proxy
  split_values,   // MGET: one part per slot, values merged in the order of the keys
  split_all_ok,   // MSET
  split_sum,      // DEL, UNLINK, EXISTS, TOUCH
  any_master,     // no keys: any master that is up
  slot_argument,  // argument 2 is the slot
  debug,          // DEBUG: some by key, most refused
  xread,          // by keys, but refused with BLOCK
  not_yet,        // a clear error
  refused,        // a clear error, for good
  container,      // has subcommands only
};

// Whether the reply cache may keep a read's replies; see data/command-policy.toml.
enum class Cached : std::uint8_t {
  never,
  key,     // it depends on nothing but the value of the first argument's key
  fields,  // the same, but where single fields of a hash may expire
};

// What a command is to the reply cache.
enum class CacheRole : std::uint8_t {
  none,
  read,    // may be answered from it
  write,   // changes its keys, as far as anybody can tell
  script,  // may change what it does not name, in the slot of its keys
};

// The flags of COMMAND, one bit each, in the order of kFlagNames.
enum Flag : std::uint32_t {
  kFlagAdmin = 1U << 0, kFlagAllowBusy = 1U << 1, kFlagAsking = 1U << 2,
  kFlagBlocking = 1U << 3, kFlagDenyoom = 1U << 4, kFlagFast = 1U << 5,
  kFlagLoading = 1U << 6, kFlagModule = 1U << 7, kFlagMovablekeys = 1U << 8,
  kFlagNoAsyncLoading = 1U << 9, kFlagNoAuth = 1U << 10, kFlagNoMandatoryKeys = 1U << 11,
  kFlagNoMulti = 1U << 12, kFlagNoscript = 1U << 13, kFlagPubsub = 1U << 14,
  kFlagReadonly = 1U << 15, kFlagScriptRunner = 1U << 16, kFlagSkipMonitor = 1U << 17,
  kFlagSkipSlowlog = 1U << 18, kFlagStale = 1U << 19, kFlagWrite = 1U << 20,
};
inline constexpr std::array<std::string_view, 21> kFlagNames{
    "admin", "allow_busy", "asking", "blocking", "denyoom", "fast", "loading", "module",
    "movablekeys", "no_async_loading", "no_auth", "no_mandatory_keys", "no_multi", "noscript",
    "pubsub", "readonly", "script_runner", "skip_monitor", "skip_slowlog", "stale", "write"};

// The ACL categories of COMMAND, one bit each, in the order of kCategoryNames.
enum Category : std::uint32_t {
  kCategoryAdmin = 1U << 0, kCategoryArray = 1U << 1, kCategoryBitmap = 1U << 2,
  kCategoryBlocking = 1U << 3, kCategoryConnection = 1U << 4, kCategoryDangerous = 1U << 5,
  kCategoryFast = 1U << 6, kCategoryGeo = 1U << 7, kCategoryHash = 1U << 8,
  kCategoryHyperloglog = 1U << 9, kCategoryKeyspace = 1U << 10, kCategoryList = 1U << 11,
  kCategoryPubsub = 1U << 12, kCategoryRead = 1U << 13, kCategoryScripting = 1U << 14,
  kCategorySet = 1U << 15, kCategorySlow = 1U << 16, kCategorySortedset = 1U << 17,
  kCategoryStream = 1U << 18, kCategoryString = 1U << 19, kCategoryTransaction = 1U << 20,
  kCategoryWrite = 1U << 21,
};
inline constexpr std::array<std::string_view, 22> kCategoryNames{
    "admin", "array", "bitmap", "blocking", "connection", "dangerous", "fast", "geo", "hash",
    "hyperloglog", "keyspace", "list", "pubsub", "read", "scripting", "set", "slow", "sortedset",
    "stream", "string", "transaction", "write"};

// Which servers' COMMAND lists it.
enum Server : std::uint8_t { kRedis70 = 1, kRedis8 = 2, kValkey9 = 4 };

// One key specification (redis.io/docs/reference/key-specs): where keys begin, how many there are.
struct KeySpec {
  enum class Begin : std::uint8_t { unknown, index, keyword };
  enum class Find : std::uint8_t { unknown, range, keynum };

  Begin begin = Begin::unknown;
  std::int8_t first = 0;          // index: the argument; keyword: where the search starts
  std::string_view keyword = {};
  Find find = Find::unknown;
  std::int8_t last = 0;           // range: the last key, from the first, or from the end if < 0
  std::int8_t step = 1;
  std::int8_t limit = 0;          // range: only the first 1/limit of the rest
  std::int8_t count_at = 0;       // keynum: where the count is, from the first
  std::int8_t keys_at = 0;        // keynum: where the keys are, from the first
  std::string_view flags = {};    // "RW access update", space separated
  std::string_view notes = {};
};

// The few shapes of key positions that need no interpreter; nearly all traffic has one of them.
enum class KeyShape : std::uint8_t { none, argument_1, argument_2, general };

struct Command {
  using Begin = KeySpec::Begin;
  using Find = KeySpec::Find;

  std::string_view name;            // lower case, "container|subcommand" for a subcommand
  std::int16_t arity = 0;           // with the name; negative: at least so many
  Handling handling = Handling::by_keys;
  KeyShape key_shape = KeyShape::none;
  std::uint16_t index = 0;          // position in the table, for counters
  std::uint32_t flags = 0;
  std::uint32_t categories = 0;
  std::int8_t first_key = 0, last_key = 0, key_step = 0;  // the legacy description
  std::uint8_t servers = 0;
  std::string_view tips = {};       // space separated
  Cached cached = Cached::never;
  CacheRole cache_role = CacheRole::none;
  std::array<KeySpec, 3> key_specs = {};
  std::uint8_t key_spec_count = 0;
  std::uint16_t first_subcommand = 0, subcommand_count = 0;
  // The argument with the one key of a command that is simply sent to its owner; 0: look closer.
  std::uint8_t straight_key = 0;

  std::span<const KeySpec> keys() const { return {key_specs.data(), key_spec_count}; }
  bool has(Flag flag) const { return (flags & flag) != 0; }
  bool takes(std::size_t arguments) const {
    return arity >= 0 ? arguments == static_cast<std::size_t>(arity)
                      : arguments >= static_cast<std::size_t>(-arity);
  }
};

}  // namespace penstock::command
