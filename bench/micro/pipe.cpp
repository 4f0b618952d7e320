// A pipe over a reactor without sockets: requests appended, sent, answered, handed to a sink.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <string>

#include "micro/counting_sink.h"
#include "null_backend/null_reactor.h"
#include "penstock/backend/pipe.h"

namespace penstock {
namespace {

// One connected pipe and what it needs.
class Bench {
 public:
  Bench() {
    pipe_.flush();
    for (net::Stream* stream : reactor_.take_connecting()) stream->on_connected(0);
    flush();
  }
  ~Bench() { pipe_.shut_down(); }

  void append(std::string_view frame) { pipe_.append(token_, frame, {}); }
  void flush() {
    for (backend::Pipe* pipe : context_.dirty) pipe->flush();
    context_.dirty.clear();
  }
  void receive(std::string_view bytes) { static_cast<net::Stream&>(pipe_).on_data(bytes); }
  std::uint64_t replies() const { return sink_.replies; }

 private:
  bench::NullReactor reactor_;
  net::BlockPool blocks_;
  net::Resolver resolver_;
  net::Mailbox mailbox_;
  bench::CountingSink sink_;
  backend::PipeContext context_{.reactor = reactor_,
                                .blocks = blocks_,
                                .resolver = resolver_,
                                .mailbox = mailbox_,
                                .sink = sink_,
                                .limits = {},
                                .credentials = {},
                                .on_trouble = [] {},
                                .random = {}};
  backend::Pipe pipe_{context_, {"127.0.0.1", 1}, resp::Protocol::resp2};
  backend::ReplyToken token_;
};

std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string bulk(std::size_t size) {
  return "$" + std::to_string(size) + "\r\n" + std::string(size, 'v') + "\r\n";
}

constexpr std::string_view kGet = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n";

// `batch` requests, one send, and their replies in `pieces` receives of nearly the same size.
void round_trips(benchmark::State& state, std::size_t batch, std::size_t reply_bytes,
                 std::size_t pieces) {
  Bench bench;
  const std::string replies = repeated(bulk(reply_bytes), batch);
  const std::size_t step = (replies.size() + pieces - 1) / pieces;
  for (auto _ : state) {
    for (std::size_t i = 0; i < batch; ++i) bench.append(kGet);
    bench.flush();
    for (std::size_t at = 0; at < replies.size(); at += step) {
      bench.receive(std::string_view(replies).substr(at, step));
    }
  }
  const auto commands = static_cast<std::int64_t>(batch) * state.iterations();
  if (bench.replies() != static_cast<std::uint64_t>(commands)) state.SkipWithError("lost replies");
  state.SetItemsProcessed(commands);
}

// How many requests share one send: 1 is a lone client without a pipeline.
void pipe_batch(benchmark::State& state) {
  round_trips(state, static_cast<std::size_t>(state.range(0)), 64, 1);
}
BENCHMARK(pipe_batch)->Arg(1)->Arg(16)->Arg(256);

// The same with torn replies: a receive ends in the middle of one.
void pipe_torn_reply(benchmark::State& state) {
  round_trips(state, 16, static_cast<std::size_t>(state.range(0)), 3);
}
BENCHMARK(pipe_torn_reply)->Arg(64)->Arg(4096);

void pipe_reply_bytes(benchmark::State& state) {
  round_trips(state, 16, static_cast<std::size_t>(state.range(0)), 1);
}
BENCHMARK(pipe_reply_bytes)->Arg(3)->Arg(4096);

}  // namespace
}  // namespace penstock
