// Handing requests to the owners of shared pipes, and replies back.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/sharding/shared_pipes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "penstock/log/check.h"
#include "sharding/batch_ring.h"
#include "sharding/record.h"

namespace penstock::sharding {

using backend::Lost;
using backend::Pipe;
using backend::ReplyToken;
using backend::RequestTimes;
using backend::TakenRequest;

namespace {

// So many bytes of replies that a worker has not taken stop the reading of more.
constexpr std::size_t kReplyBacklogBytes = 4 * BatchRing::kBatchBytes;

constexpr std::uint16_t kNoPlace = 0xffff;

// What a full way to another worker is looked at again after.
constexpr net::Nanos kFullPause = 50'000;

std::uint8_t bit_of(resp::Protocol protocol) {
  return protocol == resp::Protocol::resp2 ? 1 : 2;
}

}  // namespace

SharedPipes::SharedPipes(Exchange& exchange, std::uint16_t worker, backend::PipeContext& context,
                         std::size_t lanes, backend::ReplySink& sessions,
                         stats::WorkerStats& stats)
    : exchange_(exchange), worker_(worker), context_(context), pool_(context, lanes),
      sessions_(sessions), stats_(stats) {
  exchange_.bell(worker_).reactor.store(&context.reactor, std::memory_order_release);
}

SharedPipes::~SharedPipes() = default;

void SharedPipes::on_topology(std::shared_ptr<const OwnerPlan> plan,
                              const cluster::Router& router) {
  plan_ = std::move(plan);
  const auto& entries = plan_->entries();
  owned_.resize(entries.size());
  addresses_.resize(entries.size());
  for (std::uint16_t place = 0; place < entries.size(); ++place) {
    const OwnerPlan::Entry& entry = entries[place];
    const bool owns = entry.signs != nullptr && entry.owner == worker_;
    if (pool_.has_node(place) && !(owns && owned_[place] == entry.node)) pool_.remove_node(place);
    addresses_[place] = {entry.endpoint.host, entry.endpoint.port};
    if (owns && !pool_.has_node(place)) pool_.set_node(place, addresses_[place]);
    owned_[place] = entry.node;
  }
  routes_.assign(router.nodes(), {});
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const auto node = static_cast<cluster::NodeIndex>(i);
    if (!router.is_known(node)) continue;
    const OwnerPlan::Entry* entry = plan_->find(router.endpoint(node));
    if (entry != nullptr) routes_[i] = {entry->node, entry->owner, entry->signs.get()};
  }
  pool_.return_stuck();
}

Outlet SharedPipes::outlet(cluster::NodeIndex node, resp::Protocol protocol, cluster::Slot slot) {
  const Route& route = routes_[node];
  CHECK(route.signs != nullptr);
  if (route.owner == worker_) return Outlet(pool_.get(route.node.place, protocol, slot));
  return {*this, route, protocol, slot};
}

char* SharedPipes::reserve(std::uint16_t owner, std::size_t size) {
  return exchange_.way(worker_, owner).reserve(sizeof(Record) + size + alignof(Record)) +
         sizeof(Record);
}

void SharedPipes::commit(Record record, const Route& route, std::size_t size) {
  record.frame_bytes = static_cast<std::uint32_t>(size);
  record.node = route.node;
  BatchRing& way = exchange_.way(worker_, route.owner);
  std::memcpy(way.reserve(0), &record, sizeof(record));
  way.commit(record.size());
  stats_.handed_over.add();
  if (record.token.session != ReplyToken::kNobody) ++handed_over_;
  if (!way.has_room()) publish_to(route.owner);
}

bool SharedPipes::fall_asleep() {
  Doorbell& bell = exchange_.bell(worker_);
  bell.asleep.store(true, std::memory_order_seq_cst);
  for (std::size_t from = 0; from < exchange_.workers(); ++from) {
    if (!exchange_.way(from, worker_).empty()) return false;
  }
  return true;
}

void SharedPipes::wake_up() {
  exchange_.bell(worker_).asleep.store(false, std::memory_order_relaxed);
}

void SharedPipes::take_mail() {
  for (std::size_t from = 0; from < exchange_.workers(); ++from) {
    BatchRing& way = exchange_.way(from, worker_);
    // No more than were there: one that is faster than this worker must not keep it here.
    for (std::uint32_t i = 0; i < BatchRing::kBatches && !way.empty(); ++i, way.pop()) {
      take_batch(way.front(), static_cast<std::uint16_t>(from));
    }
  }
}

void SharedPipes::take_batch(std::string_view batch, std::uint16_t from) {
  while (!batch.empty()) {
    Record record;
    std::memcpy(&record, batch.data(), sizeof(record));
    const std::string_view frame = batch.substr(sizeof(Record), record.frame_bytes);
    if (record.kind == Record::Kind::request) {
      take_request(record, frame, nullptr, from);
    } else if (record.kind == Record::Kind::request_block) {
      net::Block* block = nullptr;
      std::memcpy(&block, frame.data(), sizeof(block));
      context_.blocks.take_over(block);
      take_request(record, block->bytes(), block, from);
    } else {
      take_reply(record, frame,
                 batch.substr(sizeof(Record) + record.frame_bytes, record.request_bytes));
    }
    batch.remove_prefix(record.size());
  }
}

// `block`: what holds the frame, and nothing else; null when it lies in the batch.
void SharedPipes::take_request(const Record& record, std::string_view frame, net::Block* block,
                               std::uint16_t from) {
  const std::uint16_t place = record.node.place;
  const bool knows = place < owned_.size() && owned_[place] == record.node &&
                     pool_.has_node(place);
  Pipe* const pipe = knows ? &pool_.get(place, record.protocol, record.slot) : nullptr;
  RequestTimes times = record.times;
  times.queued = context_.reactor.now_us();
  if (pipe != nullptr && !pipe->is_unreachable()) {
    if (block != nullptr) {
      pipe->append(record.token, block, times);
    } else {
      pipe->append(record.token, frame, times);
    }
    if (pipe->has_room()) return;
    return plan_->entries()[place].signs->full.store(true, std::memory_order_relaxed);
  }
  // Its map or ours is older: to be routed anew. Or nobody can reach the node.
  ReplyToken token = record.token;
  token.worker = from & ReplyToken::kWorkersMax;
  if (pipe == nullptr) {
    on_lost(token, Lost::returned, {frame, times}, {}, {});
  } else {
    on_lost(token, Lost::not_sent, {frame, times}, pipe->node(), pipe->trouble());
  }
  if (block != nullptr) context_.blocks.put(block);
}

void SharedPipes::take_reply(const Record& record, std::string_view frame,
                             std::string_view request) {
  static const net::HostPort kUnnamed;
  const bool named = record.node.place < addresses_.size();
  const net::HostPort& node = named ? addresses_[record.node.place] : kUnnamed;
  RequestTimes times = record.times;
  times.queued = context_.reactor.now_us() - times.queued;
  switch (record.kind) {
    case Record::Kind::reply:
      --handed_over_;
      return sessions_.on_reply(record.token, frame, times, node);
    case Record::Kind::error:
      --handed_over_;
      return sessions_.on_error(record.token, frame, {request, times}, node);
    case Record::Kind::piece:
      return sessions_.on_reply_piece(record.token, frame, false, node);
    case Record::Kind::last_piece:
      --handed_over_;
      return sessions_.on_reply_piece(record.token, frame, true, node);
    case Record::Kind::lost:
      --handed_over_;
      return sessions_.on_lost(record.token, record.why, {request, times}, node, frame);
    case Record::Kind::request:
    case Record::Kind::request_block: return;
  }
}

// To the worker that asked. Replies always go: they were asked for, and nothing may be dropped.
void SharedPipes::send_back(const ReplyToken& token, Record record, std::string_view frame,
                            std::string_view request) {
  if (token.session == ReplyToken::kNobody) return;
  record.token = token;
  record.frame_bytes = static_cast<std::uint32_t>(frame.size());
  record.request_bytes = static_cast<std::uint32_t>(request.size());
  BatchRing& way = exchange_.way(worker_, token.worker);
  char* const out = way.reserve(record.size());
  std::memcpy(out, &record, sizeof(record));
  std::memcpy(out + sizeof(record), frame.data(), frame.size());
  if (!request.empty()) {
    std::memcpy(out + sizeof(record) + frame.size(), request.data(), request.size());
  }
  way.commit(record.size());
  stats_.handed_back.add();
  if (way.has_room() || publish_to(token.worker)) [[likely]] return;
  if (way.unpublished() > kReplyBacklogBytes && !reading_held_) hold_reading();
}

// Some worker does not keep up with its replies: the nodes have to wait.
void SharedPipes::hold_reading() {
  reading_held_ = true;
  pool_.for_each([](Pipe& pipe) { pipe.stop_reading(); });
}

void SharedPipes::publish() {
  bool backlog = false;
  for (std::size_t to = 0; to < exchange_.workers(); ++to) {
    BatchRing& way = exchange_.way(worker_, to);
    if (way.unpublished() == 0 || publish_to(to)) continue;
    backlog = backlog || !way.has_room();
  }
  if (!reading_held_ || backlog) return;
  reading_held_ = false;
  pool_.for_each([](Pipe& pipe) { pipe.go_on_reading(); });
}

// False when the other worker has not worked off what it has got.
bool SharedPipes::publish_to(std::size_t worker) {
  if (!exchange_.way(worker_, worker).publish()) return false;
  stats_.batches_handed_over.add();
  Doorbell& bell = exchange_.bell(worker);
  if (!bell.asleep.load(std::memory_order_seq_cst) || !bell.asleep.exchange(false)) return true;
  stats_.wakes.add();
  context_.reactor.wake_other(*bell.reactor.load(std::memory_order_acquire));
  return true;
}

void SharedPipes::tick() {
  pool_.tick();
  tell_signs();
}

void SharedPipes::tell_signs() {
  struct Signs {
    bool full = false, troubled = false;
    std::uint8_t ready = 0;
  };
  const auto& entries = plan_->entries();
  for (std::uint16_t place = 0; place < entries.size(); ++place) {
    if (entries[place].signs == nullptr || entries[place].owner != worker_) continue;
    Signs now;
    pool_.for_each_of(place, [&](Pipe& pipe) {
      now.full = now.full || !pipe.has_room();
      now.troubled = now.troubled || !pipe.trouble().empty();
      if (pipe.is_ready()) now.ready |= bit_of(pipe.protocol());
    });
    NodeSigns& signs = *entries[place].signs;
    signs.full.store(now.full, std::memory_order_relaxed);
    signs.troubled.store(now.troubled, std::memory_order_relaxed);
    signs.ready.store(now.ready, std::memory_order_relaxed);
  }
}

std::uint16_t SharedPipes::place_of(const net::HostPort& node) const {
  const auto found = std::find(addresses_.begin(), addresses_.end(), node);
  return found == addresses_.end() ? kNoPlace
                                   : static_cast<std::uint16_t>(found - addresses_.begin());
}

net::Nanos SharedPipes::next_due() const {
  for (std::size_t to = 0; to < exchange_.workers(); ++to) {
    if (exchange_.way(worker_, to).unpublished() > 0) return context_.reactor.now() + kFullPause;
  }
  return INT64_MAX;
}

void SharedPipes::trim() {
  for (std::size_t to = 0; to < exchange_.workers(); ++to) exchange_.way(worker_, to).trim();
}

std::size_t SharedPipes::memory() const {
  std::size_t total = 0;
  for (std::size_t to = 0; to < exchange_.workers(); ++to) {
    total += exchange_.way(worker_, to).memory();
  }
  return total;
}

void SharedPipes::on_reply(const ReplyToken& token, std::string_view frame,
                           const RequestTimes& times, const net::HostPort& node) {
  if (token.worker == worker_) return sessions_.on_reply(token, frame, times, node);
  Record record;
  record.kind = Record::Kind::reply;
  record.times = times;
  record.times.queued = context_.reactor.now_us() - times.queued;
  // Who asked for a whole reply has no use for the name.
  record.node.place = token.part == ReplyToken::kWhole ? kNoPlace : place_of(node);
  send_back(token, record, frame, {});
}

void SharedPipes::on_error(const ReplyToken& token, std::string_view frame,
                           const TakenRequest& request, const net::HostPort& node) {
  if (token.worker == worker_) return sessions_.on_error(token, frame, request, node);
  Record record;
  record.kind = Record::Kind::error;
  record.times = request.times;
  record.times.queued = context_.reactor.now_us() - request.times.queued;
  record.node.place = place_of(node);
  send_back(token, record, frame, request.bytes);
}

void SharedPipes::on_reply_piece(const ReplyToken& token, std::string_view piece, bool last,
                                 const net::HostPort& node) {
  if (token.worker == worker_) return sessions_.on_reply_piece(token, piece, last, node);
  Record record;
  record.kind = last ? Record::Kind::last_piece : Record::Kind::piece;
  record.node.place = place_of(node);
  send_back(token, record, piece, {});
}

void SharedPipes::on_lost(const ReplyToken& token, Lost why, const TakenRequest& request,
                          const net::HostPort& node, std::string_view trouble) {
  if (token.worker == worker_) return sessions_.on_lost(token, why, request, node, trouble);
  Record record;
  record.kind = Record::Kind::lost;
  record.why = why;
  record.times = request.times;
  record.times.queued = context_.reactor.now_us() - request.times.queued;
  record.node.place = place_of(node);
  send_back(token, record, trouble, request.bytes);
}

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
  shared_->commit(record, *route_, sizeof(frame));
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
