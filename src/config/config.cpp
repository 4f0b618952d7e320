// Reads the configuration file and the overrides, and prints the configuration.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/config/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/schema.h"

namespace penstock::config {
namespace {

// Where a value came from, for the error line: "FILE:LINE" or "--set".
using Place = std::string;

[[noreturn]] void fail(const Place& place, std::string_view key, std::string_view what) {
  throw ConfigError(fmt::format("{}: {}: {}", place, key, what));
}

// How far two names are apart, for "did you mean" (Levenshtein distance).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replace}));
    }
  }
  return row[b.size()];
}

std::string unknown_key(std::string_view name) {
  const Key* nearest = nullptr;
  std::size_t best = 4;
  std::string section;
  const std::string prefix(name.substr(0, name.find('.') + 1));
  for (const Key& key : schema()) {
    if (const std::size_t d = distance(name, key.name); d < best) {
      best = d;
      nearest = &key;
    }
    if (prefix.size() > 1 && key.name.starts_with(prefix)) {
      section += (section.empty() ? "" : ", ") + key.name.substr(prefix.size());
    }
  }
  if (nearest != nullptr) return "unknown key; did you mean " + nearest->name + "?";
  if (!section.empty()) return "unknown key; allowed in this section: " + section;
  return "unknown key; allowed sections: server, io, cluster, backend, reply_cache, limits, log";
}

void set(Config& config, const Place& place, const std::string& name, const toml::node& node) {
  const Key* key = find_key(name);
  if (key == nullptr) fail(place, name, unknown_key(name));
  if (!key->read(config, node)) fail(place, name, "must be " + key->allowed);
}

Place place_of(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}", file, source.begin.line);
}

void read_file(Config& config, const std::string& file) {
  toml::table table;
  try {
    table = toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    if (error.source().begin.line == 0) throw ConfigError(file + ": cannot be read");
    throw ConfigError(fmt::format("{}: {}", place_of(file, error.source()), error.description()));
  }
  for (const auto& [section, content] : table) {
    const std::string name(section.str());
    const toml::table* keys = content.as_table();
    if (keys == nullptr) {
      fail(place_of(file, content.source()), name,
           "must be in a section, such as [server]");
    }
    if (keys->empty() && unknown_key(name + ".").find("allowed sections") != std::string::npos) {
      fail(place_of(file, content.source()), name, unknown_key(name));
    }
    for (const auto& [key, node] : *keys) {
      set(config, place_of(file, key.source()), name + "." + std::string(key.str()), node);
    }
  }
}

// The value of an override is TOML, or a plain text where that is no TOML.
void apply_override(Config& config, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) fail("--set", assignment, "must be key=value");
  const std::string name = assignment.substr(0, equals);
  const std::string value = assignment.substr(equals + 1);
  toml::table table;
  try {
    table = toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    table.insert_or_assign("value", value);
  }
  const Key* key = find_key(name);
  if (key != nullptr && !key->read(config, *table.get("value"))) {
    // "--set server.password=1234" means the text.
    table.insert_or_assign("value", value);
  }
  set(config, "--set", name, *table.get("value"));
}

// What no single key can say.
void check(const Config& config) {
  const auto ends_in_port = [](const std::string& address) {
    const std::size_t colon = address.rfind(':');
    if (colon == std::string::npos || colon == 0 || address.size() - colon > 6) return false;
    const std::string digits = address.substr(colon + 1);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return false;
    return std::stoul(digits) <= 65535;
  };
  for (const std::string& address : config.server.listen) {
    if (!address.starts_with("unix:/") && !ends_in_port(address)) {
      fail("server.listen", address, "must be " + find_key("server.listen")->allowed);
    }
  }
  for (const std::string& address : config.cluster.seeds) {
    if (!ends_in_port(address)) {
      fail("cluster.seeds", address, "must be " + find_key("cluster.seeds")->allowed);
    }
  }
  if (!config.server.announce.empty() && !ends_in_port(config.server.announce)) {
    fail("server.announce", config.server.announce, "must be host:port");
  }
  if (config.backend.client_name.find_first_of(" \r\n") != std::string::npos) {
    fail("backend.client_name", config.backend.client_name, "must not contain spaces");
  }
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(std::exchange(line, ""));
    }
    line += (line.empty() ? "" : " ") + word;
    at = space + 1;
  }
  lines.push_back(line);
  return lines;
}

}  // namespace

Config load(const std::string& file, const std::vector<std::string>& overrides) {
  Config config;
  if (!file.empty()) read_file(config, file);
  for (const std::string& each : overrides) apply_override(config, each);
  check(config);
  return config;
}

std::string print(const Config& config) {
  std::string out = "# Penstock's configuration: every key with its value.\n";
  std::string section;
  for (const Key& key : schema()) {
    const std::size_t dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      section = key.name.substr(0, dot);
      out += "\n[" + section + "]\n";
    }
    for (const std::string& line : wrapped(key.comment, 96)) out += "# " + line + "\n";
    out += "# Allowed: " + key.allowed + ".\n";
    const bool hidden = key.secret && key.print(config) != key.print(Config{});
    out += key.name.substr(dot + 1) + " = " + (hidden ? "\"\"  # set, not shown" : key.print(config)) +
           "\n\n";
  }
  out.pop_back();
  return out;
}

std::string print_reference() {
  std::string out;
  std::string section;
  for (const Key& key : schema()) {
    const std::size_t dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      section = key.name.substr(0, dot);
      out += "\n## [" + section + "]\n\n| key | default | allowed | what it does |\n|---|---|---|---|\n";
    }
    out += fmt::format("| `{}` | `{}` | {} | {} |\n", key.name.substr(dot + 1),
                       key.print(Config{}), key.allowed, key.comment);
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> values(const Config& config) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Key& key : schema()) {
    if (!key.secret) out.emplace_back(key.name, key.print(config));
  }
  return out;
}

}  // namespace penstock::config
