// Splitting a command and merging the replies.
// SPDX-License-Identifier: Apache-2.0
#include "session/fan_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "penstock/resp/number.h"
#include "penstock/resp/reply_scanner.h"
#include "session/session.h"

namespace penstock::session {
namespace {

constexpr std::uint16_t kNoPart = 0xffff;

// Objects that once split a huge command give their memory back.
constexpr std::size_t kKeysKept = 4096;
constexpr std::size_t kPartsKept = 1024;

std::size_t digits_of(std::size_t number) {
  std::size_t digits = 1;
  while (number >= 10) {
    number /= 10;
    ++digits;
  }
  return digits;
}

std::size_t bulk_size(std::size_t length) { return 1 + digits_of(length) + 2 + length + 2; }

char* write_header(char* out, char type, std::size_t count) {
  *out++ = type;
  out = std::to_chars(out, out + 20, count).ptr;
  *out++ = '\r';
  *out++ = '\n';
  return out;
}

char* write_bulk(char* out, std::string_view bytes) {
  out = write_header(out, '$', bytes.size());
  std::memcpy(out, bytes.data(), bytes.size());
  out += bytes.size();
  *out++ = '\r';
  *out++ = '\n';
  return out;
}

// slot -> part of the command being planned; one table for all of a thread's commands.
std::uint16_t* part_of_slot() {
  static thread_local std::unique_ptr<std::uint16_t[]> table = [] {
    auto fresh = std::make_unique<std::uint16_t[]>(cluster::kSlots);
    std::fill_n(fresh.get(), cluster::kSlots, kNoPart);
    return fresh;
  }();
  return table.get();
}

}  // namespace

// The part whose reply is the values that are there, one after the other; none: no part.
std::uint32_t FanOut::plan_kept(Kept kept) {
  std::size_t bytes = 0;
  for (const cache::Entry* entry : kept) bytes += entry == nullptr ? 0 : entry->frame().size();
  if (bytes == 0) return kNoPart;
  Part& part = parts_.emplace_back();
  part.slot = cluster::kNoSlot;
  part.done = true;
  part.reply = pool_.get(bytes);
  for (const cache::Entry* entry : kept) {
    if (entry == nullptr) continue;
    const std::string_view frame = entry->frame();
    std::memcpy(part.reply->data() + part.reply->end, frame.data(), frame.size());
    part.reply->end += static_cast<std::uint32_t>(frame.size());
  }
  return static_cast<std::uint32_t>(parts_.size() - 1);
}

void FanOut::plan(const command::Command& command, const resp::Request& request, Kept kept) {
  command_ = &command;
  step_ = command.handling == command::Handling::split_all_ok ? 2 : 1;
  const auto keys = static_cast<std::uint32_t>((request.size() - 1) / step_);
  part_of_key_.resize(keys);
  next_key_.resize(keys);
  const std::uint32_t kept_part = plan_kept(kept);
  std::uint16_t* const table = part_of_slot();
  for (std::uint32_t key = 0; key < keys; ++key) {
    if (!kept.empty() && kept[key] != nullptr) {
      part_of_key_[key] = kept_part;
      continue;
    }
    const std::size_t argument = 1 + std::size_t{key} * step_;
    const cluster::Slot slot = cluster::hash_slot(request[argument]);
    const bool fresh = table[slot] == kNoPart;
    if (fresh) {
      table[slot] = static_cast<std::uint16_t>(parts_.size());
      parts_.push_back({.slot = slot, .first_key = key});
    }
    Part& part = parts_[table[slot]];
    if (!fresh) next_key_[part.last_key] = key;
    part.last_key = key;
    ++part.keys;
    part_of_key_[key] = table[slot];
    for (std::size_t i = 0; i < step_; ++i) {
      part.request_size += bulk_size(request[argument + i].size());
    }
  }
  for (Part& part : parts_) {
    if (part.done) continue;
    table[part.slot] = kNoPart;
    part.request_size += 1 + digits_of(1 + std::size_t{part.keys} * step_) + 2 +
                         bulk_size(command.name.size());
  }
  parts_left_ = parts_.size() - (kept_part == kNoPart ? 0 : 1);
}

bool FanOut::has_slot(cluster::Slot slot) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [slot](const Part& part) { return !part.done && part.slot == slot; });
}

void FanOut::write_request(std::size_t index, const resp::Request& request, char* out) const {
  const Part& part = parts_[index];
  out = write_header(out, '*', 1 + std::size_t{part.keys} * step_);
  out = write_bulk(out, command_->name);
  std::uint32_t key = part.first_key;
  for (std::uint32_t left = part.keys; left > 0; --left) {
    for (std::size_t i = 0; i < step_; ++i) {
      out = write_bulk(out, request[1 + std::size_t{key} * step_ + i]);
    }
    key = next_key_[key];
  }
}

std::size_t FanOut::split_part(std::size_t index) {
  const std::size_t first = parts_.size();
  std::uint32_t key = parts_[index].first_key;
  for (std::uint32_t left = parts_[index].keys; left > 0; --left) {
    part_of_key_[key] = static_cast<std::uint32_t>(parts_.size());
    parts_.push_back({.slot = parts_[index].slot, .keys = 1, .first_key = key, .last_key = key});
    key = next_key_[key];
  }
  parts_left_ += parts_.size() - first - 1;
  parts_[index].done = true;
  return first;
}

bool FanOut::add_reply(std::size_t index, std::string_view piece, bool last,
                       const net::HostPort& node) {
  Part& part = parts_[index];
  received_ += piece.size();
  if (part.done) return false;
  if (last && part.reply == nullptr && (piece[0] == '-' || piece[0] == '!')) {
    return add_failure(index, piece.substr(1, piece.find('\r') - 1), net::to_string(node));
  }
  const std::size_t before = part.reply == nullptr ? 0 : part.reply->bytes().size();
  if (part.reply == nullptr) part.reply = pool_.get(piece.size());
  if (part.reply->room() < piece.size()) {
    part.reply = pool_.grow(part.reply, before + std::max(before / 4, piece.size()));
  }
  std::memcpy(part.reply->data() + part.reply->end, piece.data(), piece.size());
  part.reply->end += static_cast<std::uint32_t>(piece.size());
  if (!last) return false;
  if (!check_shape(part)) {
    return add_failure(index, "ERR unexpected reply", net::to_string(node));
  }
  return finish_part(part);
}

bool FanOut::add_failure(std::size_t index, std::string_view error, const std::string& address) {
  Part& part = parts_[index];
  if (part.done) return false;
  if (error_.empty()) {
    error_ = fmt::format("-{} ({}{}other parts of the command may have run)\r\n", error,
                         address.empty() ? "" : "shard ", address.empty() ? "" : address + "; ");
  }
  return finish_part(part);
}

bool FanOut::finish_part(Part& part) {
  part.done = true;
  return --parts_left_ == 0;
}

// What a node answers to a part: a number, OK, or an array with a value for each key.
bool FanOut::check_shape(Part& part) {
  const std::string_view reply = part.reply->bytes();
  const std::size_t line = reply.find("\r\n");
  if (line == std::string_view::npos) return false;
  std::int64_t number = 0;
  switch (command_->handling) {
    case command::Handling::split_all_ok: return reply[0] == '+';
    case command::Handling::split_sum:
      if (reply[0] != ':' || !resp::parse_integer(reply.substr(1, line - 1), number)) return false;
      sum_ += number;
      return true;
    default:
      if (reply[0] != '*' || !resp::parse_integer(reply.substr(1, line - 1), number)) return false;
      part.merged = line + 2;
      return number == part.keys;
  }
}

void FanOut::merge(Session& session, std::uint32_t sequence) {
  if (!error_.empty()) {
    const std::string error = error_;  // the session recycles this object
    return session.reply(sequence, error);
  }
  switch (command_->handling) {
    case command::Handling::split_all_ok: return session.reply(sequence, "+OK\r\n");
    case command::Handling::split_sum: {
      char text[32];
      *fmt::format_to(text, ":{}\r\n", sum_) = '\0';
      return session.reply(sequence, text);
    }
    default: return merge_values(session, sequence);
  }
}

void FanOut::merge_values(Session& session, std::uint32_t sequence) {
  char header[32];
  const char* const end = write_header(header, '*', part_of_key_.size());
  session.reply_piece(sequence, {header, static_cast<std::size_t>(end - header)}, false);
  const std::size_t keys = part_of_key_.size();
  net::BlockPool& pool = pool_;  // the last piece recycles this object
  for (std::size_t key = 0; key < keys; ++key) {
    Part& part = parts_[part_of_key_[key]];
    const std::string_view value = next_element(part);
    const bool part_ends = part.merged == part.reply->bytes().size();
    net::Block* const done = part_ends ? std::exchange(part.reply, nullptr) : nullptr;
    session.reply_piece(sequence, value, key + 1 == keys);
    if (done != nullptr) pool.put(done);  // not later: all values together may be large
  }
}

std::string_view FanOut::next_element(Part& part) {
  const std::string_view rest = part.reply->bytes().substr(part.merged);
  resp::ReplyScanner scanner;
  scanner.scan(rest);
  part.merged += scanner.frame_size();
  return rest.substr(0, scanner.frame_size());
}

void FanOut::clear() {
  for (Part& part : parts_) {
    if (part.reply != nullptr) pool_.put(part.reply);
  }
  parts_.clear();
  part_of_key_.clear();
  next_key_.clear();
  if (part_of_key_.capacity() > kKeysKept) {
    std::vector<std::uint32_t>().swap(part_of_key_);
    std::vector<std::uint32_t>().swap(next_key_);
  }
  if (parts_.capacity() > kPartsKept) std::vector<Part>().swap(parts_);
  parts_left_ = 0;
  received_ = 0;
  sum_ = 0;
  error_.clear();
}

FanOut* FanOutPool::get() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<FanOut>(blocks_));
    return all_.back().get();
  }
  FanOut* fan_out = free_.back();
  free_.pop_back();
  return fan_out;
}

void FanOutPool::put(FanOut* fan_out) {
  fan_out->clear();
  free_.push_back(fan_out);
}

}  // namespace penstock::session
