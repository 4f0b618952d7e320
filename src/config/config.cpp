// Reads the configuration file and the overrides, and prints the configuration.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "config/schema.h"

namespace penstock::config {
namespace {

constexpr std::string_view kReferenceHead = R"(# Configuration

The keys of the TOML file that `penstock -c FILE` reads, as `penstock --print-reference` prints
them; each has a default, so a file needs only what differs. Durations and sizes are texts with a
unit, such as `"200us"`, `"15s"`, `"64kb"` and `"1gb"`. `--set section.key=value`, as in
`--set io.engine=epoll`, beats the file; of two for one key, the last counts.
)";

// Where a value came from, for the error line: "FILE:LINE" or "--set".
using Place = std::string;

Place place_of(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}", file, source.begin.line);
}

// Names in a file may have any character, and the error must be one line.
[[noreturn]] void fail(const Place& place, std::string_view what) {
  std::string line = fmt::format("{}: {}", place, what);
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  std::replace_if(line.begin(), line.end(), is_control, '?');
  throw ConfigError(line);
}

[[noreturn]] void fail(const Place& place, std::string_view name, std::string_view what) {
  fail(place, fmt::format("{}: {}", name, what));
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

// The keys of a section, without its name; none when there is no such section.
std::vector<std::string> keys_of(std::string_view section) {
  const std::string prefix = std::string(section) + ".";
  std::vector<std::string> keys;
  for (const Key& key : schema()) {
    if (key.name.starts_with(prefix)) keys.push_back(key.name.substr(prefix.size()));
  }
  return keys;
}

std::string allowed_sections() {
  std::vector<std::string> sections;
  for (const Key& key : schema()) {
    const std::string section = key.name.substr(0, key.name.find('.'));
    if (sections.empty() || sections.back() != section) sections.push_back(section);
  }
  return fmt::format("allowed sections: {}", fmt::join(sections, ", "));
}

std::string unknown_key(std::string_view name) {
  constexpr std::size_t kFarthest = 3;  // edits beyond which a name is another one
  const Key* nearest = nullptr;
  std::size_t best = kFarthest + 1;
  for (const Key& key : schema()) {
    if (const std::size_t d = distance(name, key.name); d < best) {
      best = d;
      nearest = &key;
    }
  }
  if (nearest != nullptr) return "unknown key; did you mean " + nearest->name + "?";
  const std::vector<std::string> keys = keys_of(name.substr(0, name.find('.')));
  if (keys.empty()) return "unknown key; " + allowed_sections();
  return fmt::format("unknown key; allowed in this section: {}", fmt::join(keys, ", "));
}

// `wrong`: the value, or an element of it.
std::string wrong_value(const Key& key, const toml::node& value, const toml::node& wrong) {
  std::string what = "must be " + key.allowed;
  const std::optional<std::string> text = wrong.value_exact<std::string>();
  if (&wrong != &value && text) what += fmt::format(", not \"{}\"", *text);
  return what;
}

std::string content_of(const std::string& file) {
  const auto close = [](std::FILE* stream) { std::fclose(stream); };
  const std::unique_ptr<std::FILE, decltype(close)> stream(std::fopen(file.c_str(), "rb"), close);
  std::string content;
  std::array<char, 4096> piece;
  for (std::size_t size = piece.size(); stream != nullptr && size == piece.size();) {
    size = std::fread(piece.data(), 1, piece.size(), stream.get());
    content.append(piece.data(), size);
  }
  if (stream == nullptr || std::ferror(stream.get()) != 0) {
    fail(file, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  return content;
}

// The key whose value is at this position, where one line has both; else null. For errors that TOML
// itself finds, as in "level = info" and "idle_timeout = 30s".
const Key* key_at(const std::string& content, const toml::source_position& position) {
  std::istringstream lines(content);
  std::string section;
  std::string line;
  for (toml::source_index number = 1; std::getline(lines, line); ++number) {
    if (number == position.line) break;
    if (line.starts_with('[')) section = line.substr(1, line.find(']') - 1);
  }
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos || position.column <= equals) return nullptr;
  const std::string name = line.substr(0, equals);
  const std::size_t first = name.find_first_not_of(" \t");
  const std::size_t last = name.find_last_not_of(" \t");
  if (first == std::string::npos) return nullptr;
  return find_key(section + "." + name.substr(first, last - first + 1));
}

toml::table parse(const std::string& file) {
  const std::string content = content_of(file);
  try {
    return toml::parse(content, file);
  } catch (const toml::parse_error& error) {
    const Place place = place_of(file, error.source());
    const Key* key = key_at(content, error.source().begin);
    if (key == nullptr) fail(place, error.description());
    fail(place, key->name, fmt::format("{}; must be {}", error.description(), key->allowed));
  }
}

void read_key(Config& config, const std::string& file, const std::string& name,
              const toml::source_region& source, const toml::node& value) {
  const Key* key = find_key(name);
  if (key == nullptr) fail(place_of(file, source), name, unknown_key(name));
  if (const toml::node* wrong = key->read(config, value)) {
    // A long list may have one line for each element.
    const toml::source_region& where = wrong == &value ? source : wrong->source();
    fail(place_of(file, where), name, wrong_value(*key, value, *wrong));
  }
}

void read_file(Config& config, const std::string& file) {
  const toml::table content = parse(file);
  for (const auto& [section, node] : content) {
    const std::string name(section.str());
    const Place place = place_of(file, section.source());
    const bool is_section = !keys_of(name).empty();
    const toml::table* keys = node.as_table();
    if (keys == nullptr) {
      fail(place, name,
           is_section ? fmt::format("must be a section: [{}]", name)
                      : "must be in a section, such as [server]; " + allowed_sections());
    }
    if (keys->empty() && !is_section) fail(place, name, "unknown section; " + allowed_sections());
    for (const auto& [key, value] : *keys) {
      read_key(config, file, fmt::format("{}.{}", name, key.str()), key.source(), value);
    }
  }
}

// The value of an override is TOML where that is what the key takes, or else a plain text:
// "--set server.password=1234" means the text.
void apply_override(Config& config, const std::string& assignment) {
  const Place place = "--set";
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) fail(place, assignment, "must be key=value");
  const std::string name = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  const Key* key = find_key(name);
  if (key == nullptr) fail(place, name, unknown_key(name));
  toml::table table;
  try {
    table = toml::parse("value = " + text);
  } catch (const toml::parse_error&) {
    table.insert_or_assign("value", text);
  }
  const toml::node& value = *table.get("value");
  const toml::node* wrong = key->read(config, value);
  if (wrong == nullptr || key->read(config, toml::value<std::string>(text)) == nullptr) return;
  fail(place, name, wrong_value(*key, value, *wrong));
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

// The servers refuse to announce prefixes of which one is the beginning of another.
void check_prefixes(const std::vector<std::string>& prefixes) {
  for (const std::string& one : prefixes) {
    for (const std::string& other : prefixes) {
      if (&one == &other || !one.starts_with(other)) continue;
      throw ConfigError(fmt::format(
          "reply_cache.prefixes: \"{}\" begins with \"{}\"; leave out the longer one", one, other));
    }
  }
}

}  // namespace

Config load(const std::string& file, const std::vector<std::string>& overrides) {
  Config config;
  if (!file.empty()) read_file(config, file);
  for (const std::string& each : overrides) apply_override(config, each);
  check_prefixes(config.reply_cache.prefixes);
  return config;
}

std::string print(const Config& config) {
  std::string out = "# Penstock's configuration: every key with its value.\n";
  std::string section;
  for (const Key& key : schema()) {
    const std::size_t dot = key.name.find('.');
    out += "\n";
    if (key.name.substr(0, dot) != section) {
      section = key.name.substr(0, dot);
      out += "[" + section + "]\n";
    }
    for (const std::string& text : {key.comment, "Allowed: " + key.allowed + "."}) {
      for (const std::string& line : wrapped(text, 96)) out += "# " + line + "\n";
    }
    const bool hidden = key.secret && key.print(config) != key.print(Config{});
    const std::string value = hidden ? "\"\"  # set, not shown" : key.print(config);
    out += fmt::format("{} = {}\n", key.name.substr(dot + 1), value);
  }
  return out;
}

std::string print_reference() {
  std::string out(kReferenceHead);
  std::string section;
  for (const Key& key : schema()) {
    const std::size_t dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      section = key.name.substr(0, dot);
      out += "\n## [" + section + "]\n\n";
      out += "| key | default | allowed | what it does |\n|---|---|---|---|\n";
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
