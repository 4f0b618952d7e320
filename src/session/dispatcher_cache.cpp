// What the reply cache changes about dispatching: reads that are answered at once or for several
// clients together, and writes that it has to be told of.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "session/dispatcher.h"
#include "session/own_writes.h"
#include "session/read_names.h"
#include "session/shared_reads.h"

namespace penstock::session {

using backend::Watch;
using command::CacheRole;
using command::Command;
using command::Handling;

namespace {

// A worker keeps no more than this for replies that it puts together.
constexpr std::size_t kTextKept = 64 * 1024;

}  // namespace

Taken Dispatcher::with_cache(Session& session, const Command& command,
                             const resp::Request& request) {
  if (command.cache_role != CacheRole::read) return noted_write(session, command, request);
  if (command.handling == Handling::split_values) return cached_values(session, command, request);
  const bool one_key = command.handling == Handling::by_keys || request.size() == 2;
  return one_key ? cached_read(session, command, request) : route(session, command, request);
}

Taken Dispatcher::cached_read(Session& session, const Command& command,
                              const resp::Request& request) {
  const cluster::Slot slot = cluster::hash_slot(request[1]);
  const cache::ReadName name =
      name_of(context_.cache.hash(request[1]), command, session.view(), request);
  // What comes earlier from this client in the slot must have run before this does.
  const bool quiet = !session.has_unanswered(slot);
  const cache::Entry* const entry =
      quiet && session.trusts_cache() ? context_.cache.find(name, context_.reactor.now())
                                      : nullptr;
  context_.admission.count(entry != nullptr);
  if (entry != nullptr) {
    context_.stats.cache_hits.add();
    session.answer(command, entry->frame());
    return Taken::yes;
  }
  SharedReads::Read& read = context_.shared_reads->place_of(name);
  const bool same = SharedReads::is(read, name);
  if (same || (!read.under_way && context_.admission.admits())) {
    const auto writes = context_.cache.claim(name.hash, slot, {}, cache::ReplyCache::Of::read);
    if (same && writes && may_join(session, read, slot, quiet, *writes)) {
      context_.stats.cache_joined.add();
      wait_for_read(session, session.open(command, slot, false), read);
      return Taken::yes;
    }
    if (!same && writes) return send_shared(session, command, request, slot, name, *writes);
  }
  context_.stats.cache_misses.add();
  return to_slot(session, command, request, slot, false, Watch::passing);
}

// A read that is under way will do if no own write came after it, and if everything of this client
// in the slot that is not answered waits for it, too.
bool Dispatcher::may_join(Session& session, const SharedReads::Read& read, cluster::Slot slot,
                          bool quiet, const cache::Claim& writes) {
  const bool same_writes =
      writes.begun == read.as_sent.begun && writes.epoch == read.as_sent.epoch;
  if (read.begun_reply || !same_writes || session.must_wait(slot)) return false;
  return quiet || !session.has_unanswered(slot, context_.shared_reads->mark_of(read));
}

void Dispatcher::wait_for_read(Session& session, std::uint32_t sequence,
                               SharedReads::Read& read) {
  session.sequencer().at(sequence).cache_mark =
      context_.shared_reads->mark_of(read) & Place::kCacheMarkMax;
  read.waiting.push_back(session.token(sequence));
}

// The request goes out for this client and for those that ask for the same until it is answered.
Taken Dispatcher::send_shared(Session& session, const Command& command,
                              const resp::Request& request, cluster::Slot slot,
                              const cache::ReadName& name, const cache::Claim& writes) {
  if (session.must_wait(slot)) return Taken::wait_for_replies;
  context_.stats.cache_misses.add();
  const cluster::NodeIndex node = context_.router.node_of(slot);
  if (node == cluster::kNoNode || request.frame().size() >= Session::kAdoptBytes) {
    return to_slot(session, command, request, slot, false, Watch::passing);
  }
  sharding::Outlet outlet = session.outlet(node, slot);
  if (!outlet.has_room() || outlet.is_unreachable()) {
    return to_slot(session, command, request, slot, false, Watch::passing);
  }
  SharedReads::Read& read = context_.shared_reads->place_of(name);
  const std::uint32_t sequence = session.open(command, slot, false);
  const backend::ReplyToken token = context_.shared_reads->begin(read, name, writes);
  wait_for_read(session, sequence, read);
  outlet.append(token, request.frame(), {context_.now(), context_.now(), 0, false, Watch::read});
  return Taken::yes;
}

// MGET: what is there is taken, the rest is asked for.
Taken Dispatcher::cached_values(Session& session, const Command& command,
                                const resp::Request& request) {
  const std::size_t keys = request.size() - 1;
  auto& kept = context_.kept;
  kept.assign(keys, nullptr);
  std::size_t found = 0;
  for (std::size_t i = 0; i < keys; ++i) {
    const std::string_view key = request[1 + i];
    if (session.trusts_cache() && !session.has_unanswered(cluster::hash_slot(key))) {
      kept[i] = context_.cache.find({context_.cache.hash(key), context_.get_index, session.view(),
                                     arguments_of(request, 1 + i, 1 + i)},
                                    context_.reactor.now());
    }
    context_.admission.count(kept[i] != nullptr);
    found += kept[i] != nullptr ? 1 : 0;
  }
  if (found < keys) {
    const Watch watch = context_.admission.admits() ? Watch::read : Watch::passing;
    const Taken taken = split(session, command, request, watch, found > 0);
    if (taken != Taken::yes) return taken;
  }
  context_.stats.cache_hits.add(found);
  context_.stats.cache_misses.add(keys - found);
  if (found < keys) return Taken::yes;
  std::string& text = context_.text;
  text.clear();
  fmt::format_to(std::back_inserter(text), "*{}\r\n", keys);
  for (const cache::Entry* entry : kept) text += entry->frame();
  session.answer(command, text);
  if (text.capacity() > kTextKept) std::string().swap(text);
  return Taken::yes;
}

Taken Dispatcher::noted_write(Session& session, const Command& command,
                              const resp::Request& request) {
  const OwnWrites::Mark mark = context_.own_writes->begin(command, request);
  Taken taken;
  if (command.straight_key > 0) {
    const bool keeps = context_.keeps_values && command.straight_key == 1 &&
                       request.size() >= 3 && request.frame().size() < Session::kAdoptBytes &&
                       plain_set(request) && context_.admission.admits();
    taken = to_slot(session, command, request, cluster::hash_slot(request[command.straight_key]),
                    false, keeps ? Watch::own_write : Watch::none);
  } else {
    taken = route(session, command, request);
  }
  ReplySequencer& places = session.sequencer();
  const std::uint32_t sequence = places.next() - 1;
  if (taken == Taken::yes && places.contains(sequence) && !places.at(sequence).done) {
    places.at(sequence).cache_mark = mark & Place::kCacheMarkMax;
  } else {
    context_.own_writes->end(mark);
  }
  return taken;
}

}  // namespace penstock::session
