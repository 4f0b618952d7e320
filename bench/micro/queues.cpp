// The sequencer and the queue behind pipes and clients.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <string>

#include "penstock/net/send_queue.h"
#include "session/reply_sequencer.h"

namespace penstock {
namespace {

// Sixteen places opened and answered in order.
void sequence_in_order(benchmark::State& state) {
  net::BlockPool pool;
  session::ReplySequencer sequencer(pool);
  for (auto _ : state) {
    for (int i = 0; i < 16; ++i) sequencer.open();
    for (int i = 0; i < 16; ++i) sequencer.pop_head();
  }
  state.SetItemsProcessed(state.iterations() * 16);
}
BENCHMARK(sequence_in_order);

// Sixteen replies of which all but one come early.
void sequence_early(benchmark::State& state) {
  net::BlockPool pool;
  session::ReplySequencer sequencer(pool);
  const std::string reply(72, 'r');
  for (auto _ : state) {
    const std::uint32_t first = sequencer.next();
    for (int i = 0; i < 16; ++i) sequencer.open();
    for (std::uint32_t i = 1; i < 16; ++i) sequencer.hold(sequencer.at(first + i), reply);
    sequencer.pop_head();
    for (std::uint32_t i = 1; i < 16; ++i) {
      pool.put_chain(sequencer.take_held(sequencer.at(first + i)));
      sequencer.pop_head();
    }
  }
  state.SetItemsProcessed(state.iterations() * 16);
}
BENCHMARK(sequence_early);

// Requests through a pipe's queue: appended, sent, kept, retired.
void queue_requests(benchmark::State& state) {
  net::BlockPool pool;
  net::SendQueue queue(pool);
  const std::string request(static_cast<std::size_t>(state.range(0)), 'q');
  for (auto _ : state) {
    for (int i = 0; i < 64; ++i) queue.append_whole(request);
    queue.mark_sent(queue.unsent());
    for (int i = 0; i < 64; ++i) queue.retire(request.size());
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(queue_requests)->Arg(36)->Arg(110)->Arg(4096);

}  // namespace
}  // namespace penstock
