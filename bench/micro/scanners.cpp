// The scanners, the slot hash and the command table.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <string>

#include "penstock/cluster/hash_slot.h"
#include "penstock/command/command_table.h"
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

void scan_get(benchmark::State& state) { scan_request(state, frame_of({"GET", "key:000000012345"})); }
BENCHMARK(scan_get);

void scan_set(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  scan_request(state, frame_of({"SET", "key:000000012345", std::string(size, 'v')}));
}
BENCHMARK(scan_set)->Arg(3)->Arg(64)->Arg(4096)->Arg(65536);

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

void hash_key(benchmark::State& state) {
  const std::string key(static_cast<std::size_t>(state.range(0)), 'k');
  for (auto _ : state) benchmark::DoNotOptimize(cluster::hash_slot(key));
}
BENCHMARK(hash_key)->Arg(8)->Arg(16)->Arg(64)->Arg(256);

void find_command(benchmark::State& state) {
  const command::CommandTable table;
  const std::string name = "GET";
  for (auto _ : state) benchmark::DoNotOptimize(table.find(name));
}
BENCHMARK(find_command);

}  // namespace
}  // namespace penstock
