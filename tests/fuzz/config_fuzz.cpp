// Configuration texts: taken, and then printed so that they are taken again; or one clear line.
// The lines before the first that is empty are overrides, as of --set; the rest is the file.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/config/config.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/schema.h"
#include "mutate.h"
#include "require.h"

namespace penstock::fuzz {
namespace {

// A file that lives in memory only.
class TextFile {
 public:
  explicit TextFile(std::string_view text) : fd_(memfd_create("penstock.toml", 0)) {
    REQUIRE(fd_ >= 0);
    REQUIRE(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() { close(fd_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

std::optional<config::Config> load(std::string_view text,
                                   const std::vector<std::string>& overrides) {
  const TextFile file(text);
  try {
    return config::load(file.path(), overrides);
  } catch (const config::ConfigError& error) {
    REQUIRE(*error.what() != '\0');
    return std::nullopt;
  }
}

// TOML is UTF-8, and the toml library checks a file for it; an override may be any bytes.
bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

void run(std::string_view text) {
  std::vector<std::string> overrides;
  while (!text.empty() && text[0] != '\n') {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (is_ascii(line)) overrides.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::optional<config::Config> config = load(text, overrides);
  if (!config) return;
  config->server.password = config->cluster.password = "";  // are never printed
  const std::string printed = config::print(*config);
  const std::optional<config::Config> again = load(printed, {});
  REQUIRE(again);
  REQUIRE(config::print(*again) == printed);
  REQUIRE(config::values(*again) == config::values(*config));
}

std::string random_setting(Random& random) {
  static const char* const kValues[] = {
      "0",      "1",       "65536",   "true",     "false",        "\"0s\"",
      "\"1s\"", "\"10m\"", "\"5kb\"", "\"64mb\"", "\"auto\"",     "[\"127.0.0.1:7000\"]",
      "[]",     "\"\"",    "{}",      "-1",       "[\"[::1]:1\"]", "\"unix:/x\""};
  const std::vector<config::Key>& keys = config::schema();
  const std::string& name = keys[below(random, keys.size())].name;
  const std::string value = kValues[below(random, std::size(kValues))];
  const std::size_t dot = name.find('.');
  switch (below(random, 3)) {
    case 0: return "[" + name.substr(0, dot) + "]\n" + name.substr(dot + 1) + " = " + value + "\n";
    case 1: return name + "=" + value + "\n";
    default: return name.substr(dot + 1) + " = " + value + "\n";
  }
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  penstock::fuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return penstock::fuzz::mutate(data, size, max_size, seed, 0, penstock::fuzz::random_setting);
}
