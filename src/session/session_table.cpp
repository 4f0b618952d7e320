// All client connections of one worker: adding, looking after, closing, and the order of a turn.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/session/session_table.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "penstock/log/log.h"
#include "penstock/net/sockets.h"
#include "session/session_table_parts.h"

namespace penstock::session {
namespace {

constexpr net::Nanos kTick = 10'000'000;

// Sessions that wait for room in a pipe look again after so long.
constexpr net::Nanos kRoomPause = 1'000'000;

// Every client is looked at once in this many ticks (one second) for idleness.
constexpr std::size_t kSweepTicks = 100;

// Free blocks that a worker with nothing to do keeps, and how much less than before it must use to
// have malloc look for whole pages that are free.
constexpr std::size_t kIdleCacheBytes = 1 << 20;
constexpr std::size_t kBurstBytes = 8 << 20;

// Nobody is closed for holding less, such as one INFO.
constexpr std::size_t kModestBytes = 16 << 10;

backend::PipeContext pipe_context(const SessionServices& services, backend::ReplySink& sink) {
  const auto micros = [](config::Duration d) { return static_cast<backend::Micros>(d.count()); };
  const auto& backend = services.config.backend;
  const auto& cluster = services.config.cluster;
  return {.reactor = services.reactor,
          .blocks = services.blocks,
          .resolver = services.resolver,
          .mailbox = services.mailbox,
          .sink = sink,
          .limits = {.connect_timeout = micros(backend.connect_timeout),
                     .request_timeout = micros(backend.request_timeout),
                     .retry_deadline = micros(backend.retry_deadline),
                     .tcp_keepalive = backend.tcp_keepalive,
                     .queue_bytes = services.config.limits.pipe_queue},
          .credentials = {cluster.username, cluster.password, backend.client_name},
          .on_trouble = services.request_refresh,
          .random = std::minstd_rand(services.random_seed)};
}

}  // namespace

SessionTable::Parts::Parts(SessionServices given, backend::ReplySink& sink)
    : services(std::move(given)), read_names(services.cache, services.commands),
      pipe_context(session::pipe_context(services, sink)),
      pipes(pipe_context, services.config.backend.connections_per_node),
      shared_context(session::pipe_context(services, shared)),
      shared(services.exchange, services.worker, shared_context,
             services.config.backend.connections_per_node, sink, services.stats),
      context{services, services.reactor, services.blocks, services.config, services.commands,
              services.router, pipes, shared, services.stats, services.cache},
      dispatcher(context), redirector(context, sessions), fan_outs(services.blocks),
      own_writes(services.cache, services.stats),
      shared_reads(sink, sessions, services.worker) {
  context.dispatcher = &dispatcher;
  context.redirector = &redirector;
  context.fan_outs = &fan_outs;
  context.own_writes = &own_writes;
  context.shared_reads = &shared_reads;
  context.get_index = services.commands.find("get")->index;
  pipe_context.observe = tracker_maker(pipe_context, services.worker);
  shared_context.observe = tracker_maker(shared_context, std::nullopt);
  services.cache.grace().begin(services.worker);
  context.on_closed = [this](std::uint32_t index) {
    sessions.remove(index);
    services.stats.clients.subtract();
    services.stats.clients_closed.add();
  };
}

std::function<std::shared_ptr<backend::PipeObserver>(backend::Pipe&)>
SessionTable::Parts::tracker_maker(backend::PipeContext& of, std::optional<std::uint16_t> worker) {
  return [this, &of, worker](backend::Pipe& pipe) {
    return std::make_shared<cache::InvalidationTracker>(
        pipe, of, services.cache, read_names, services.tracking,
        view_of(worker, pipe.protocol()), services.stats);
  };
}

SessionTable::SessionTable(SessionServices services)
    : parts_(std::make_unique<Parts>(std::move(services), *this)) {}

SessionTable::~SessionTable() = default;

void SessionTable::add_client(int fd, std::uint64_t id) {
  const config::Config& config = parts_->services.config;
  net::set_client_options(fd, config.server.tcp_keepalive);
  Session& session = parts_->sessions.add(parts_->context);
  session.state().id = id;
  session.state().authenticated = config.server.password.empty();
  parts_->services.stats.clients.add();
  parts_->services.stats.clients_accepted.add();
  parts_->services.reactor.adopt(session, fd);
  parts_->services.reactor.start_receive(session);
  if (parts_->draining) session.drain();  // accepted just before the listener closed
}

std::size_t SessionTable::clients() const { return parts_->sessions.size(); }

void SessionTable::on_topology(std::shared_ptr<const cluster::Topology> topology,
                               std::shared_ptr<const sharding::OwnerPlan> plan) {
  if (parts_->closing) return;
  cluster::Router& router = parts_->services.router;
  if (parts_->context.caching) {
    const auto before = router.owners();
    router.apply(std::move(topology));
    forget_moved_slots(before);
  } else {
    router.apply(std::move(topology));
  }
  for (std::size_t i = 0; i < router.nodes(); ++i) {
    const auto node = static_cast<cluster::NodeIndex>(i);
    const bool has = parts_->pipes.has_node(node);
    if (router.is_known(node) && !has) {
      const cluster::Endpoint& endpoint = router.endpoint(node);
      parts_->pipes.set_node(node, {endpoint.host, endpoint.port});
    } else if (!router.is_known(node) && has) {
      parts_->pipes.remove_node(node);
    }
  }
  // What waits for a connection that does not come may have a better place now.
  parts_->pipes.return_stuck();
  parts_->shared.on_topology(std::move(plan), router);
  parts_->redirector.on_new_topology();
}

// What is kept of a slot that has another owner now was read from the wrong node.
void SessionTable::forget_moved_slots(const cluster::SlotOwners& before) {
  const cluster::SlotOwners& now = parts_->services.router.owners();
  for (std::size_t slot = 0; slot < cluster::kSlots; ++slot) {
    if (before[slot] == now[slot]) continue;
    parts_->services.cache.slots().forget(static_cast<cluster::Slot>(slot));
    parts_->services.stats.cache_slots_forgotten.add();
  }
}

std::atomic<bool>* SessionTable::fall_asleep() { return parts_->shared.fall_asleep(); }

void SessionTable::take_mail() {
  SessionContext& context = parts_->context;
  context.mode = parts_->services.exchange.mode();
  if (parts_->cache_period != context.cache.period()) follow_cache();
  parts_->shared.take_mail();
}

// The reply cache was switched. Writes that are under way were not noted for it, so nothing may be
// kept before they are through.
void SessionTable::follow_cache() {
  SessionContext& context = parts_->context;
  parts_->cache_period = context.cache.period();
  context.caching = parts_->cache_period % 2 == 1;
  const bool broadcast = parts_->services.tracking.mode == cache::Tracking::broadcast;
  context.keeps_values = broadcast;
  context.admission = cache::Admission(broadcast ? cache::Admission::kBroadcast
                                                 : cache::Admission::kOptin);
  parts_->unnoted.clear();
  parts_->cache_settled = !context.caching;
  if (!context.caching) return;
  for (std::size_t i = 0; i < parts_->sessions.slots(); ++i) {
    Session* session = parts_->sessions.at(i);
    if (session == nullptr || session->sequencer().empty()) continue;
    parts_->unnoted.push_back(session->token(session->sequencer().next() - 1));
  }
}

void SessionTable::look_after_cache() {
  if (!parts_->context.caching) return;
  parts_->context.cache.sweep(parts_->services.reactor.now());
  std::erase_if(parts_->unnoted, [this](const backend::ReplyToken& token) {
    return parts_->sessions.find(token) == nullptr;
  });
  if (parts_->cache_settled || !parts_->unnoted.empty()) return;
  parts_->cache_settled = true;
  parts_->context.cache.settle(parts_->cache_period);
}

void SessionTable::end_turn() {
  SessionContext& context = parts_->context;
  parts_->redirector.run_due();
  // Those that waited for room in a pipe try again in every turn; there are few, if any.
  std::vector<Session*> resumed;
  resumed.swap(context.waiting);
  resumed.insert(resumed.end(), context.ready.begin(), context.ready.end());
  context.ready.clear();
  for (Session* session : resumed) session->resume();
  parts_->shared.publish();
  parts_->pipes.flush();
  parts_->shared.flush();
  release_held_replies();
  // Flushing may close a session or make it dirty again; both are for the next turn.
  std::vector<Session*> dirty;
  dirty.swap(context.dirty);
  for (Session* session : dirty) session->flush();
  dirty.clear();
  if (context.dirty.empty()) context.dirty.swap(dirty);  // keeps the memory
  parts_->services.stats.flush();
  parts_->services.cache.grace().pass(parts_->services.worker);
}

void SessionTable::hold_replies(net::Nanos at_most) { parts_->context.hold_replies = at_most; }

// Sessions whose replies have waited long enough for more; most have sent them long since.
void SessionTable::release_held_replies() {
  std::vector<Holding>& holding = parts_->context.holding;
  const net::Nanos due = parts_->services.reactor.now() - parts_->context.hold_replies;
  std::size_t released = 0;
  while (released < holding.size() && holding[released].since <= due) {
    const Holding& each = holding[released++];
    if (each.session->held_since() == each.since) each.session->mark_dirty();
  }
  holding.erase(holding.begin(), holding.begin() + static_cast<std::ptrdiff_t>(released));
}

void SessionTable::tick() {
  const net::Nanos now = parts_->services.reactor.now();
  if (now < parts_->next_tick) return;
  parts_->next_tick = now + kTick;
  parts_->pipes.tick();
  parts_->shared.tick();
  sweep_clients();
  give_back_memory();
  enforce_memory_limit();
  look_after_cache();
  const net::BlockPool& blocks = parts_->services.blocks;
  parts_->services.stats.buffer_bytes.set(blocks.bytes_used() + parts_->shared.memory());
  parts_->services.stats.buffer_bytes_cached.set(blocks.bytes_cached());
  parts_->services.stats.in_flight.set(parts_->pipes.outstanding() + parts_->shared.in_pipes());
}

net::Nanos SessionTable::next_due() const {
  const SessionContext& context = parts_->context;
  if (!context.dirty.empty() || !context.ready.empty() || !parts_->pipe_context.dirty.empty() ||
      !parts_->shared_context.dirty.empty()) {
    return 0;
  }
  const net::Nanos held = context.holding.empty()
                              ? INT64_MAX
                              : context.holding.front().since + context.hold_replies;
  // Room in another worker's pipe is no event here.
  const net::Nanos room =
      context.waiting.empty() ? INT64_MAX : parts_->services.reactor.now() + kRoomPause;
  return std::min({held, room, parts_->shared.next_due(), parts_->redirector.next_due()});
}

std::size_t SessionTable::outstanding() const {
  return parts_->pipes.outstanding() + parts_->shared.outstanding();
}

Activity SessionTable::take_activity() {
  ++parts_->context.period;
  return std::exchange(parts_->context.activity, Activity{});
}

// A hundredth of the clients in every tick: idle ones are closed, or give back what they hold.
void SessionTable::sweep_clients() {
  SessionIndex& sessions = parts_->sessions;
  const std::int64_t limit_ms = parts_->services.config.server.idle_timeout.count() / 1000;
  const std::int64_t now_ms = parts_->services.reactor.now() / 1'000'000;
  const std::size_t count = sessions.slots() / kSweepTicks + 1;
  for (std::size_t i = 0; i < count && sessions.slots() > 0; ++i) {
    parts_->sweep_at = (parts_->sweep_at + 1) % sessions.slots();
    Session* session = sessions.at(parts_->sweep_at);
    if (session == nullptr || session->is_closing()) continue;
    session->sweep();
    if (session->is_closing()) continue;
    if (const std::uint32_t in_flight = session->sequencer().size(); in_flight > 0) {
      parts_->services.stats.looks_in_flight.add();
      if (in_flight > 1) parts_->services.stats.looks_pipelining.add();
    }
    const bool idle = !session->is_busy() && !session->is_draining() &&
                      now_ms - session->state().active_at_ms > limit_ms;
    if (limit_ms == 0 || !idle) continue;
    parts_->services.stats.clients_closed_idle.add();
    session->expire();
  }
}

// Once a second: free blocks beyond what is in use just now go, to the system if they are many.
void SessionTable::give_back_memory() {
  net::BlockPool& blocks = parts_->services.blocks;
  parts_->most_bytes = std::max(parts_->most_bytes, blocks.bytes_used() + blocks.bytes_cached());
  if (++parts_->ticks % kSweepTicks != 0) return;
  blocks.trim(std::max(kIdleCacheBytes, blocks.bytes_used()));
  parts_->shared.trim();
  const std::size_t left = blocks.bytes_used() + blocks.bytes_cached();
  if (parts_->most_bytes < left + kBurstBytes) return;
  parts_->most_bytes = left;
  malloc_trim(0);
}

// Beyond the process's limit, each worker closes its client with the most unread replies.
void SessionTable::enforce_memory_limit() {
  const SessionServices& services = parts_->services;
  if (services.memory_used() <= services.memory_limit) return;
  // All clients that hold no more than this hold half of the limit at most.
  const std::size_t modest = services.memory_limit / services.config.server.max_clients / 2;
  Session* greediest = nullptr;
  std::size_t most = std::min(modest, kModestBytes);
  for (std::size_t i = 0; i < parts_->sessions.slots(); ++i) {
    Session* session = parts_->sessions.at(i);
    if (session == nullptr || session->is_closing()) continue;
    const admin::ClientFacts facts = session->facts();
    if (facts.output_bytes + facts.query_bytes <= most) continue;
    most = facts.output_bytes + facts.query_bytes;
    greediest = session;
  }
  if (greediest == nullptr) return;
  parts_->services.stats.clients_closed_memory.add();
  LOG_LIMITED(warn, "client {}: closed, it holds {} bytes and limits.memory is reached",
              greediest->state().id, most);
  greediest->doom();
}

void SessionTable::drain() {
  parts_->draining = true;
  for (std::size_t i = 0; i < parts_->sessions.slots(); ++i) {
    if (Session* session = parts_->sessions.at(i)) session->drain();
  }
}

void SessionTable::close_all() {
  parts_->closing = true;
  for (std::size_t i = 0; i < parts_->sessions.slots(); ++i) {
    if (Session* session = parts_->sessions.at(i)) session->close();
  }
  parts_->pipes.close_all();
  parts_->shared.close_all();
}

bool SessionTable::is_closed() {
  return clients() == 0 && parts_->pipes.is_closed() && parts_->shared.is_closed();
}

}  // namespace penstock::session
