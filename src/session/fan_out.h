// One command that was split: MGET, MSET, DEL, UNLINK, EXISTS or TOUCH over several slots.
// Plans the parts, writes their requests, takes their replies in any order and merges them as one
// node would have answered. Belongs to one place in one session's order; recycled by a pool.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/pipe.h"
#include "penstock/cache/reply_cache.h"
#include "penstock/cluster/hash_slot.h"
#include "penstock/command/command.h"
#include "penstock/net/block.h"
#include "penstock/resp/request.h"

namespace penstock::session {

class Session;

class FanOut {
 public:
  explicit FanOut(net::BlockPool& pool) : pool_(pool) {}
  FanOut(const FanOut&) = delete;
  FanOut& operator=(const FanOut&) = delete;
  ~FanOut() { clear(); }

  // For each key of an MGET its value, or null where it has to be asked for.
  using Kept = std::span<const cache::Entry* const>;

  // Divides the keys among parts, one for each slot; keys whose values are there are one more part,
  // which is done.
  void plan(const command::Command& command, const resp::Request& request, Kept kept = {});
  bool is_done(std::size_t part) const { return parts_[part].done; }
  std::size_t parts() const { return parts_.size(); }
  cluster::Slot slot_of(std::size_t part) const { return parts_[part].slot; }
  bool has_several_keys(std::size_t part) const { return parts_[part].keys > 1; }
  bool has_slot(cluster::Slot slot) const;

  // One part's request: its size in bytes, and its bytes into `out`.
  std::size_t request_size(std::size_t part) const { return parts_[part].request_size; }
  void write_request(std::size_t part, const resp::Request& request, char* out) const;

  // Replaces a part of several keys by one part for each of its keys, in their order: while a slot
  // is on the move, each key is where it is. Returns the index of the first new part.
  std::size_t split_part(std::size_t part);
  // False when that would make more parts than a token can tell apart.
  bool can_split(std::size_t part) const {
    return parts_.size() + parts_[part].keys < backend::ReplyToken::kWhole;
  }

  // A part's reply, whole or in pieces. True once it was the last one.
  bool add_reply(std::size_t part, std::string_view piece, bool last,
                 const net::HostPort& node);
  // A part has no reply; `error` is one line that starts with an error code.
  bool add_failure(std::size_t part, std::string_view error, const std::string& address);
  // Bytes of replies that add_reply() was given.
  std::size_t received_bytes() const { return received_; }

  // After the last reply: the merged one into the session. The session recycles this object then.
  void merge(Session& session, std::uint32_t sequence);

  void clear();

 private:
  struct Part {
    cluster::Slot slot = 0;
    bool done = false;
    std::uint32_t keys = 0;
    std::uint32_t first_key = 0;   // in next_key_, a chain
    std::uint32_t last_key = 0;
    std::size_t request_size = 0;
    std::size_t merged = 0;        // bytes of the reply that were merged
    net::Block* reply = nullptr;
  };

  std::uint32_t plan_kept(Kept kept);
  void merge_values(Session& session, std::uint32_t sequence);
  std::string_view next_element(Part& part);
  bool check_shape(Part& part);
  bool finish_part(Part& part);

  net::BlockPool& pool_;
  const command::Command* command_ = nullptr;
  std::uint32_t step_ = 1;              // arguments per key: 2 for MSET
  std::vector<Part> parts_;
  std::vector<std::uint32_t> part_of_key_;
  std::vector<std::uint32_t> next_key_;  // of the same part
  std::size_t parts_left_ = 0;
  std::size_t received_ = 0;
  std::int64_t sum_ = 0;
  std::string error_;                   // the first part that failed; empty: none
};

class FanOutPool {
 public:
  explicit FanOutPool(net::BlockPool& blocks) : blocks_(blocks) {}

  FanOut* get();
  void put(FanOut* fan_out);

 private:
  net::BlockPool& blocks_;
  std::vector<std::unique_ptr<FanOut>> all_;
  std::vector<FanOut*> free_;
};

}  // namespace penstock::session
