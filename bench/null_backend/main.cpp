// Runs the data path without Redis and prints heap allocations and sends per command in steady
// state. Under callgrind (bench/count_instructions) it counts instructions per command.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <string>

#include "null_backend/null_proxy.h"

namespace {

std::uint64_t allocations = 0;  // made by the proxy's own code

std::string frame_of(const std::vector<std::string>& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return out;
}

// A pipeline of one command over keys of all shards.
std::string pipeline_of(const std::string& command, std::size_t depth, std::size_t value_bytes) {
  std::string out;
  for (std::size_t i = 0; i < depth; ++i) {
    const std::string key = fmt::format("key:{:012}", i * 7919);
    if (command == "get") out += frame_of({"GET", key});
    if (command == "set") out += frame_of({"SET", key, std::string(value_bytes, 'v')});
    if (command == "mget") out += frame_of({"MGET", key, key + "x", key + "y", key + "z"});
    if (command == "ping") out += frame_of({"PING"});
  }
  return out;
}

}  // namespace

// glibc's own allocator behind ours, so that every allocation is seen, operator new's too.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_realloc(void*, std::size_t);

void* malloc(std::size_t size) {
  allocations += penstock::bench::counting ? 1 : 0;
  return __libc_malloc(size);
}
void* realloc(void* memory, std::size_t size) {
  allocations += penstock::bench::counting ? 1 : 0;
  return __libc_realloc(memory, size);
}
}

int main(int argc, char** argv) {
  CLI::App app("The proxy without Redis");
  std::string command = "get";
  std::size_t nodes = 3, clients = 50, depth = 16, rounds = 1000, value_bytes = 64;
  app.add_option("--command", command, "get, set, mget or ping");
  app.add_option("--nodes", nodes, "Masters that share the slots");
  app.add_option("--clients", clients, "Clients");
  app.add_option("--pipeline", depth, "Commands that a client sends at once");
  app.add_option("--rounds", rounds, "Rounds that are counted");
  app.add_option("--value", value_bytes, "Bytes of a value");
  bool strict = false;
  bool shared = false;
  app.add_flag("--shared", shared, "Two workers that share their pipes");
  app.add_flag("--no-allocations", strict, "Fail when there is any allocation in steady state");
  CLI11_PARSE(app, argc, argv);

  penstock::bench::NullProxy proxy(nodes, clients, std::string(value_bytes, 'v'), shared);
  const std::string bytes = pipeline_of(command, depth, value_bytes);
  for (int i = 0; i < 20; ++i) proxy.round(bytes);
  proxy.forget_instructions();
  allocations = 0;
  const std::uint64_t replied = proxy.reply_bytes(), sent = proxy.sends();
  for (std::size_t i = 0; i < rounds; ++i) proxy.round(bytes);
  const auto commands = static_cast<double>(rounds * clients * depth);
  fmt::print("commands {} reply_bytes/command {:.1f} sends/command {:.3f} allocations {}\n",
             rounds * clients * depth,
             static_cast<double>(proxy.reply_bytes() - replied) / commands,
             static_cast<double>(proxy.sends() - sent) / commands, allocations);
  return strict && allocations > 0 ? 1 : 0;
}
