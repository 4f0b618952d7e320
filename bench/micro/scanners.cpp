// The scanners, the slot hash and the command table.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "penstock/cluster/hash_slot.h"
#include "penstock/command/command_table.h"
#include "penstock/command/key_finder.h"
#include "penstock/resp/reply_scanner.h"
#include "penstock/resp/request_scanner.h"

namespace penstock {
namespace {

std::string frame_of(const std::vector<std::string>& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return out;
}

void scan_request(benchmark::State& state, const std::string& frame) {
  resp::RequestScanner scanner;
  for (auto _ : state) {
    scanner.reset();
    benchmark::DoNotOptimize(scanner.scan(frame, {}));
  }
}

void scan_get(benchmark::State& state) {
  scan_request(state, frame_of({"GET", "key:000000012345"}));
}
BENCHMARK(scan_get);

void scan_inline(benchmark::State& state) { scan_request(state, "GET key:000000012345\r\n"); }
BENCHMARK(scan_inline);

void scan_set(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  scan_request(state, frame_of({"SET", "key:000000012345", std::string(size, 'v')}));
}
BENCHMARK(scan_set)->Arg(3)->Arg(64)->Arg(4096)->Arg(65536);

// The straight line: a short request that is whole in the buffer.
void scan_usual_set(benchmark::State& state) {
  const std::string frame = frame_of({"SET", "key:000000012345", std::string(64, 'v')});
  resp::RequestScanner scanner;
  for (auto _ : state) benchmark::DoNotOptimize(scanner.scan_usual(frame));
}
BENCHMARK(scan_usual_set);

// A request that comes in as many pieces as it has bytes.
void scan_byte_by_byte(benchmark::State& state) {
  const std::string frame = frame_of({"GET", "key:000000012345"});
  resp::RequestScanner scanner;
  for (auto _ : state) {
    scanner.reset();
    for (std::size_t size = 1; size <= frame.size(); ++size) {
      benchmark::DoNotOptimize(scanner.scan(std::string_view(frame).substr(0, size), {}));
    }
  }
}
BENCHMARK(scan_byte_by_byte);

void scan_bulk_reply(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::string frame = "$" + std::to_string(size) + "\r\n" + std::string(size, 'v') + "\r\n";
  resp::ReplyScanner scanner;
  for (auto _ : state) {
    scanner.reset();
    benchmark::DoNotOptimize(scanner.scan(frame));
  }
}
BENCHMARK(scan_bulk_reply)->Arg(3)->Arg(64)->Arg(4096);

void scan_short_reply(benchmark::State& state) {
  const std::string frame = "$64\r\n" + std::string(64, 'v') + "\r\n";
  for (auto _ : state) benchmark::DoNotOptimize(resp::short_reply_size(frame));
}
BENCHMARK(scan_short_reply);

void scan_array_reply(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  std::string frame = "*" + std::to_string(count) + "\r\n";
  for (std::size_t i = 0; i < count; ++i) frame += "$3\r\nabc\r\n";
  resp::ReplyScanner scanner;
  for (auto _ : state) {
    scanner.reset();
    benchmark::DoNotOptimize(scanner.scan(frame));
  }
}
BENCHMARK(scan_array_reply)->Arg(10)->Arg(1000);

void hash_key(benchmark::State& state) {
  const std::string key(static_cast<std::size_t>(state.range(0)), 'k');
  for (auto _ : state) benchmark::DoNotOptimize(cluster::hash_slot(key));
}
BENCHMARK(hash_key)->Arg(8)->Arg(16)->Arg(64)->Arg(256);

void find_command(benchmark::State& state, const std::string& name) {
  const command::CommandTable table;
  const std::string frame = frame_of({name});
  const std::string_view in_frame(frame.data() + frame.size() - name.size() - 2, name.size());
  for (auto _ : state) benchmark::DoNotOptimize(table.find_in_frame(in_frame));
}
BENCHMARK_CAPTURE(find_command, short_name, "GET");
BENCHMARK_CAPTURE(find_command, long_name, "ZRANGEBYSCORE");
BENCHMARK_CAPTURE(find_command, unknown, "NOSUCH");

// By the key specifications, which the straight line does without.
void find_keys(benchmark::State& state, const std::vector<std::string>& words) {
  const command::CommandTable table;
  const std::string frame = frame_of(words);
  resp::RequestScanner scanner;
  scanner.scan(frame, {});
  const resp::Request request = scanner.request(frame);
  const command::Command& command = *table.find(words[0]);
  std::vector<command::KeyPosition> keys;
  for (auto _ : state) benchmark::DoNotOptimize(command::find_keys(command, request, keys));
}
const std::vector<std::string> kMget{"MGET", "a", "b", "c", "d"};
const std::vector<std::string> kEval{"EVAL", "return 1", "2", "a", "b", "argument"};
BENCHMARK_CAPTURE(find_keys, mget, kMget);
BENCHMARK_CAPTURE(find_keys, eval, kEval);

}  // namespace
}  // namespace penstock
