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

// What a full way to another worker is looked at again after.
constexpr net::Nanos kFullPause = 50'000;

// Workers look at the clock at times of their own: what one of them read may lie ahead of what
// another one did.
backend::Micros not_after(backend::Micros time, backend::Micros now) {
  return static_cast<std::int32_t>(now - time) < 0 ? now : time;
}

}  // namespace

SharedPipes::SharedPipes(Exchange& exchange, std::uint16_t worker, backend::PipeContext& context,
                         std::size_t lanes, backend::ReplySink& sessions,
                         stats::WorkerStats& stats)
    : exchange_(exchange), worker_(worker), context_(context), pool_(context, lanes),
      sessions_(sessions), stats_(stats), taken_(exchange.workers(), 0) {
  exchange_.bell(worker_).reactor.store(&context.reactor, std::memory_order_release);
}

SharedPipes::~SharedPipes() = default;

void SharedPipes::on_topology(std::shared_ptr<const OwnerPlan> plan,
                              const cluster::Router& router) {
  plan_ = std::move(plan);
  const auto& entries = plan_->entries();
  nodes_.resize(entries.size());
  addresses_.resize(entries.size());
  for (std::uint16_t place = 0; place < entries.size(); ++place) {
    const OwnerPlan::Entry& entry = entries[place];
    const bool owns = entry.signs != nullptr && entry.owner == worker_;
    if (pool_.has_node(place) && !(owns && nodes_[place] == entry.node)) pool_.remove_node(place);
    addresses_[place] = {entry.endpoint.host, entry.endpoint.port};
    if (owns && !pool_.has_node(place)) pool_.set_node(place, addresses_[place]);
    nodes_[place] = entry.node;
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

void SharedPipes::commit(Record record, const Route& route, std::size_t size,
                         std::size_t block_bytes) {
  record.frame_bytes = static_cast<std::uint32_t>(size);
  record.plan = plan_->version();
  record.node = route.node;
  BatchRing& way = exchange_.way(worker_, route.owner);
  std::memcpy(way.reserve(0), &record, sizeof(record));
  way.commit(record.size(), block_bytes);
  stats_.handed_over.add();
  if (record.token.session == ReplyToken::kNobody) return;  // ASKING: what follows stays with it
  ++handed_over_;
  if (!way.has_room()) publish_to(route.owner);
}

std::atomic<bool>* SharedPipes::fall_asleep() {
  std::atomic<bool>& asleep = exchange_.bell(worker_).asleep;
  asleep.store(true, std::memory_order_seq_cst);
  for (std::size_t from = 0; from < exchange_.workers(); ++from) {
    if (exchange_.way(from, worker_).empty()) continue;
    asleep.store(false, std::memory_order_relaxed);
    return nullptr;
  }
  return &asleep;
}

void SharedPipes::take_mail() {
  for (std::size_t from = 0; from < exchange_.workers(); ++from) {
    BatchRing& way = exchange_.way(from, worker_);
    // No more than were there: one that is faster than this worker must not keep it here.
    for (std::uint32_t i = 0; i < BatchRing::kBatches && !way.empty(); ++i, way.pop()) {
      if (!take_batch(way.front(), static_cast<std::uint16_t>(from))) break;
      taken_[from] = 0;
    }
  }
}

// False when it has to wait: a request goes by a plan that is still in this worker's mailbox.
bool SharedPipes::take_batch(std::string_view batch, std::uint16_t from) {
  while (taken_[from] < batch.size()) {
    const std::string_view rest = batch.substr(taken_[from]);
    Record record;
    std::memcpy(&record, rest.data(), sizeof(record));
    if (!take_record(record, rest.substr(sizeof(Record)), from)) return false;
    taken_[from] += record.size();
  }
  return true;
}

bool SharedPipes::take_record(const Record& record, std::string_view bytes, std::uint16_t from) {
  const std::string_view frame = bytes.substr(0, record.frame_bytes);
  const bool is_block = record.kind == Record::Kind::request_block;
  if (record.kind != Record::Kind::request && !is_block) {
    take_reply(record, frame, bytes.substr(record.frame_bytes, record.request_bytes));
    return true;
  }
  if (static_cast<std::int32_t>(record.plan - plan_->version()) > 0) return false;
  if (!is_block) {
    take_request(record, frame, nullptr, from);
    return true;
  }
  net::Block* block = nullptr;
  std::memcpy(&block, frame.data(), sizeof(block));
  context_.blocks.take_over(block);
  take_request(record, block->bytes(), block, from);
  return true;
}

// Requests of one slot must not change places when the map does. So a request is taken by the map
// that it was routed by, or not at all: some of a session's go back, all later ones do.
// `block`: what holds the frame, and nothing else; null when it lies in the batch.
void SharedPipes::take_request(const Record& record, std::string_view frame, net::Block* block,
                               std::uint16_t from) {
  const std::uint16_t place = record.node.place;
  const bool knows = record.plan == plan_->version() && pool_.has_node(place);
  Pipe* const pipe = knows ? &pool_.get(place, record.protocol, record.slot) : nullptr;
  RequestTimes times = record.times;
  times.queued = context_.reactor.now_us();
  times.begun = not_after(times.begun, times.queued);
  if (pipe != nullptr && !pipe->is_unreachable()) {
    if (block != nullptr) {
      pipe->append(record.token, block, times);
    } else {
      pipe->append(record.token, frame, times);
    }
    if (pipe->has_room()) return;
    return plan_->entries()[place].signs->full.store(true, std::memory_order_relaxed);
  }
  // There is a newer map, by which all that was not sent has gone back, too: to be routed anew.
  // Or nobody can reach the node.
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
  static const net::HostPort kUnnamed{"unknown", 0};
  const std::uint16_t place = record.node.place;
  const bool named = place < nodes_.size() && nodes_[place] == record.node;
  const net::HostPort& node = named ? addresses_[place] : kUnnamed;
  const backend::Micros now = context_.reactor.now_us();
  RequestTimes times = record.times;
  times.begun = not_after(times.begun, now);
  times.queued = now - times.queued;
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
  char* const behind = std::copy(frame.begin(), frame.end(), out + sizeof(record));
  std::copy(request.begin(), request.end(), behind);
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
  if (reading_held_) hold_reading();  // pipes that were made since
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

SharedNode SharedPipes::shared_node(const net::HostPort& node) const {
  const auto found = std::find(addresses_.begin(), addresses_.end(), node);
  return found == addresses_.end() ? SharedNode{}
                                   : nodes_[static_cast<std::size_t>(found - addresses_.begin())];
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
  if (token.part != ReplyToken::kWhole) record.node = shared_node(node);
  send_back(token, record, frame, {});
}

void SharedPipes::on_error(const ReplyToken& token, std::string_view frame,
                           const TakenRequest& request, const net::HostPort& node) {
  if (token.worker == worker_) return sessions_.on_error(token, frame, request, node);
  Record record;
  record.kind = Record::Kind::error;
  record.times = request.times;
  record.times.queued = context_.reactor.now_us() - request.times.queued;
  record.node = shared_node(node);
  send_back(token, record, frame, request.bytes);
}

void SharedPipes::on_reply_piece(const ReplyToken& token, std::string_view piece, bool last,
                                 const net::HostPort& node) {
  if (token.worker == worker_) return sessions_.on_reply_piece(token, piece, last, node);
  Record record;
  record.kind = last ? Record::Kind::last_piece : Record::Kind::piece;
  record.node = shared_node(node);
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
  record.node = shared_node(node);
  send_back(token, record, trouble, request.bytes);
}

}  // namespace penstock::sharding
