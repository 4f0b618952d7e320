// The two ways out of a worker: a pipe, or the batch for the worker that has the pipe.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "penstock/sharding/shared_pipes.h"
#include "sharding/batch_ring.h"
#include "sharding/record.h"

namespace penstock::sharding {

using backend::ReplyToken;
using backend::RequestTimes;

Outlet::Standing Outlet::standing() const {
  if (pipe_ != nullptr) {
    if (pipe_->is_ready()) return Standing::ready;
    if (pipe_->trouble().empty()) return Standing::untried;
    return pipe_->is_unreachable() ? Standing::unreachable : Standing::troubled;
  }
  const NodeSigns& signs = *route_->signs;
  if ((signs.ready.load(std::memory_order_relaxed) & bit_of(protocol_)) != 0) {
    return Standing::ready;
  }
  return signs.troubled.load(std::memory_order_relaxed) ? Standing::troubled : Standing::untried;
}

bool Outlet::has_room() const {
  if (pipe_ != nullptr) return pipe_->has_room();
  return shared_->exchange_.way(shared_->worker_, route_->owner).has_room() &&
         !route_->signs->full.load(std::memory_order_relaxed);
}

void Outlet::append(const ReplyToken& token, std::string_view frame, const RequestTimes& times) {
  if (pipe_ != nullptr) return pipe_->append(token, frame, times);
  std::memcpy(reserve(frame.size()), frame.data(), frame.size());
  commit(token, frame.size(), times);
}

void Outlet::append(const ReplyToken& token, net::Block* frame, const RequestTimes& times) {
  if (pipe_ != nullptr) return pipe_->append(token, frame, times);
  net::BlockPool& blocks = shared_->context_.blocks;
  if (!net::BlockPool::can_move(frame)) {
    append(token, frame->bytes(), times);
    return blocks.put(frame);
  }
  blocks.give_away(frame);
  Record record = record_of(token, times);
  record.kind = Record::Kind::request_block;
  std::memcpy(reserve(sizeof(frame)), &frame, sizeof(frame));
  shared_->commit(record, *route_, sizeof(frame), frame->bytes().size());
}

char* Outlet::reserve(std::size_t size) {
  return pipe_ != nullptr ? pipe_->reserve(size) : shared_->reserve(route_->owner, size);
}

void Outlet::commit(const ReplyToken& token, std::size_t size, const RequestTimes& times) {
  if (pipe_ != nullptr) return pipe_->commit(token, size, times);
  shared_->commit(record_of(token, times), *route_, size);
}

Record Outlet::record_of(const ReplyToken& token, const RequestTimes& times) const {
  Record record;
  record.token = token;
  record.times = times;
  record.slot = slot_;
  record.protocol = protocol_;
  return record;
}

}  // namespace penstock::sharding
