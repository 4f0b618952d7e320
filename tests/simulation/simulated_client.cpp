// A simulated client and its oracle.
// SPDX-License-Identifier: Apache-2.0
#include "simulation/simulated_client.h"

#include <algorithm>

namespace penstock::simulation {
namespace {

constexpr std::size_t kPipelineMax = 24;

std::string frame_of(const std::vector<std::string>& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return out;
}

}  // namespace

SimulatedClient::SimulatedClient(World& world, int number, const std::vector<std::string>& tags)
    : world_(world), name_("c" + std::to_string(number)), tags_(tags) {
  take_new_keys();
}

void SimulatedClient::take_new_keys() {
  keys_.clear();
  counters_.clear();
  possible_.clear();
  const std::string life = name_ + "l" + std::to_string(++lives_);
  for (const std::string& tag : tags_) {
    for (int i = 0; i < 3; ++i) {
      keys_.push_back("{" + tag + "}" + life + "k" + std::to_string(i));
      possible_[keys_.back()] = {std::nullopt};
    }
    counters_.push_back("{" + tag + "}" + life + "n");
    possible_[counters_.back()] = {std::nullopt};
  }
}

SimulatedClient::~SimulatedClient() {
  if (wire_ != nullptr) wire_->forget_peer();
}

void SimulatedClient::connect(std::shared_ptr<Wire> wire) {
  wire_ = std::move(wire);
  input_.clear();
  pending_.clear();
  resp3_ = false;
}

std::string SimulatedClient::random_key() {
  return keys_[static_cast<std::size_t>(
      world_.pick(0, static_cast<std::int64_t>(keys_.size()) - 1))];
}

SimulatedClient::Words SimulatedClient::make_command() {
  const auto value = [this] {
    return name_ + "v" + std::to_string(++writes_) +
           (world_.chance(3) ? std::string(static_cast<std::size_t>(world_.pick(1000, 90'000)), 'x')
                             : "");
  };
  const auto some_keys = [this](Words words, bool with_values, const auto& next_value) {
    const std::int64_t count = world_.pick(1, 6);
    const std::string first = random_key();
    const bool same_slot = world_.chance(50);
    for (std::int64_t i = 0; i < count; ++i) {
      std::string key = same_slot ? first : random_key();
      if (same_slot) key.back() = static_cast<char>('0' + world_.pick(0, 2));
      words.push_back(key);
      if (with_values) words.push_back(next_value());
    }
    return words;
  };
  switch (world_.pick(0, 9)) {
    case 0: case 1: return {"SET", random_key(), value()};
    case 2: case 3: return {"GET", random_key()};
    case 4: case 5:
      return {"INCR", counters_[static_cast<std::size_t>(
                          world_.pick(0, static_cast<std::int64_t>(counters_.size()) - 1))]};
    case 6: return some_keys({"MGET"}, false, value);
    case 7: return some_keys({"MSET"}, true, value);
    case 8: return some_keys({world_.chance(50) ? "DEL" : "EXISTS"}, false, value);
    default:
      if (world_.chance(10)) return {"HELLO", world_.chance(50) ? "3" : "2"};
      return {"PING", name_};
  }
}

void SimulatedClient::send_some() {
  if (wire_ == nullptr || !complaint_.empty()) return;
  const std::int64_t count = world_.pick(1, static_cast<std::int64_t>(kPipelineMax));
  std::string bytes;
  for (std::int64_t i = 0; i < count && pending_.size() < kPipelineMax; ++i) {
    pending_.push_back(make_command());
    bytes += frame_of(pending_.back());
  }
  wire_->send_to_proxy(bytes);
}

void SimulatedClient::vanish() {
  if (wire_ == nullptr) return;
  wire_->cut_by_peer(ECONNRESET);
  on_cut();
}

void SimulatedClient::on_cut() {
  wire_.reset();
  pending_.clear();
  take_new_keys();
}

void SimulatedClient::on_bytes(std::string_view bytes) {
  input_ += bytes;
  resp::ReplyScanner scanner;
  while (complaint_.empty() && scanner.scan(input_) == resp::ScanStatus::complete) {
    const std::string frame = input_.substr(0, scanner.frame_size());
    input_.erase(0, frame.size());
    scanner.reset();
    if (pending_.empty()) return complain("a reply to nothing", {}, frame);
    const Words command = pending_.front();
    pending_.pop_front();
    const auto value = resp::parse_reply(frame);
    if (!value) return complain("a malformed reply", command, frame);
    ++replies;
    check(command, *value, frame);
  }
}

void SimulatedClient::check(const Words& command, const resp::ReplyValue& reply,
                            std::string_view frame) {
  if (reply.is_error()) return check_error(command, reply.text);
  const std::string& name = command[0];
  const char null_type = frame[0];
  if (name == "GET" && null_type == '_' && !resp3_) return complain("RESP3 null", command, frame);
  if (name == "GET" && frame.starts_with("$-1") && resp3_) {
    return complain("RESP2 null", command, frame);
  }
  if (name == "PING" && reply.text == name_) return;
  if (name == "HELLO" && reply.is_sequence()) {
    resp3_ = command[1] == "3";
    return;
  }
  if (name == "SET" && reply.text == "OK") {
    possible_[command[1]] = {command[2]};
  } else if (name == "MSET" && reply.text == "OK") {
    for (std::size_t i = 1; i < command.size(); i += 2) possible_[command[i]] = {command[i + 1]};
  } else if (name == "GET" && (reply.is_text() || reply.type == '_')) {
    check_value(command[1], reply);
  } else if (name == "MGET" && reply.elements.size() == command.size() - 1) {
    for (std::size_t i = 1; i < command.size(); ++i) {
      check_value(command[i], reply.elements[i - 1]);
    }
  } else if (name == "INCR" && reply.type == ':') {
    const std::string before = std::to_string(reply.integer - 1);
    Values& values = possible_[command[1]];
    const bool known = values.contains(before) ||
                       (reply.integer == 1 && values.contains(std::nullopt));
    if (!known) return complain("a counter that jumped", command, frame);
    values = {std::to_string(reply.integer)};
  } else if ((name == "DEL" || name == "EXISTS") && reply.type == ':') {
    check_count(command, reply.integer);
  } else {
    complain("a reply of another command", command, frame);
  }
}

void SimulatedClient::check_value(const std::string& key, const resp::ReplyValue& value) {
  const Value got = value.type == '_' ? Value() : Value(std::string(value.text));
  Values& values = possible_[key];
  if (!values.contains(got)) {
    std::string expected;
    for (const Value& each : values) expected += " " + each.value_or("(nil)").substr(0, 30);
    return complain("an impossible value, expected one of" + expected, {"GET", key},
                    value.type == '_' ? "(nil)" : value.text.substr(0, 60));
  }
  values = {got};
}

// How many of the keys there were, counting a repeated one as one node would.
void SimulatedClient::check_count(const Words& command, std::int64_t count) {
  std::int64_t least = 0, most = 0;
  std::set<std::string> deleted;
  for (std::size_t i = 1; i < command.size(); ++i) {
    Values& values = possible_[command[i]];
    if (command[0] == "DEL" && !deleted.insert(command[i]).second) continue;
    const bool may_miss = values.contains(std::nullopt);
    const bool may_exist = values.size() > (may_miss ? 1U : 0U);
    least += may_miss ? 0 : 1;
    most += may_exist ? 1 : 0;
  }
  if (count < least || count > most) complain("a wrong count", command, std::to_string(count));
  for (const std::string& key : deleted) possible_[key] = {std::nullopt};
}

void SimulatedClient::check_error(const Words& command, std::string_view text) {
  ++errors;
  last_error = command[0] + ": " + std::string(text);
  for (const char* code : {"MOVED", "ASK ", "ASKING"}) {
    if (text.starts_with(code)) return complain("a redirect that leaked", command, text);
  }
  const bool not_run = text.find("did not run") != std::string_view::npos;
  const bool may_have_run = text.find("may have run") != std::string_view::npos;
  const bool known = not_run || may_have_run || text.starts_with("TRYAGAIN") ||
                     text.starts_with("CLUSTERDOWN") || text.starts_with("LOADING") ||
                     text.starts_with("READONLY");
  if (!known) return complain("an error nobody expects", command, text);
  if (may_have_run) note_unknown(command);
}

void SimulatedClient::note_unknown(const Words& command) {
  ++unknown_outcomes;
  const std::string& name = command[0];
  if (name == "SET") possible_[command[1]].insert(command[2]);
  if (name == "MSET") {
    // The last value of a repeated key wins, or none, if its part did not run.
    for (std::size_t i = 1; i < command.size(); i += 2)
      possible_[command[i]].insert(command[i + 1]);
  }
  if (name == "DEL") {
    for (std::size_t i = 1; i < command.size(); ++i) possible_[command[i]].insert(std::nullopt);
  }
  if (name == "INCR") {
    Values& values = possible_[command[1]];
    Values more;
    for (const Value& each : values) {
      more.insert(std::to_string((each ? std::stol(*each) : 0) + 1));
    }
    values.merge(more);
  }
}

void SimulatedClient::complain(const std::string& what, const Words& command,
                               std::string_view frame) {
  if (!complaint_.empty()) return;
  complaint_ = name_ + ": " + what + "; command:";
  for (const std::string& word : command) complaint_ += " " + word.substr(0, 40);
  complaint_ += "; reply: " + std::string(frame.substr(0, 100));
}

}  // namespace penstock::simulation
