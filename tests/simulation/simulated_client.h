// A simulated client with keys of its own: sends random pipelines and checks every reply against
// what it may be. A write with an unknown outcome leaves two possible values; a lost or swapped
// reply, a write done twice, a stale or reordered read leaves a value that is not possible.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/resp/reply_scanner.h"
#include "penstock/resp/reply_value.h"
#include "simulation/wire.h"

namespace penstock::simulation {

class SimulatedClient final : public Peer {
 public:
  SimulatedClient(World& world, int number, const std::vector<std::string>& tags);
  ~SimulatedClient() override;

  // Talks over this wire from now on.
  void connect(std::shared_ptr<Wire> wire);
  // Sends some more commands, unless enough are on their way.
  void send_some();
  // Vanishes in the middle of whatever it does. What was sent may still happen, at any time, so
  // the client comes back with other keys.
  void vanish();

  void on_bytes(std::string_view bytes) override;
  void on_cut() override;

  bool is_connected() const { return wire_ != nullptr; }
  std::size_t unanswered() const { return pending_.size(); }
  // The first thing that was wrong; empty while all is well.
  const std::string& complaint() const { return complaint_; }

  std::uint64_t replies = 0;
  std::uint64_t errors = 0;
  std::string last_error;
  std::uint64_t unknown_outcomes = 0;

 private:
  using Value = std::optional<std::string>;
  using Values = std::set<Value>;
  using Words = std::vector<std::string>;

  void take_new_keys();
  Words make_command();
  std::string random_key();
  void check(const Words& command, const resp::ReplyValue& reply, std::string_view frame);
  void check_error(const Words& command, std::string_view text);
  void check_value(const std::string& key, const resp::ReplyValue& value);
  void check_count(const Words& command, std::int64_t count);
  void complain(const std::string& what, const Words& command, std::string_view frame);
  // The command may have run or not, from now on for ever.
  void note_unknown(const Words& command);

  World& world_;
  std::string name_;
  const std::vector<std::string> tags_;
  std::vector<std::string> keys_;      // plain values
  std::vector<std::string> counters_;  // INCR only
  std::map<std::string, Values> possible_;
  std::uint64_t writes_ = 0;
  int lives_ = 0;
  std::shared_ptr<Wire> wire_;
  bool resp3_ = false;
  std::deque<Words> pending_;
  std::string input_;
  std::string complaint_;
};

}  // namespace penstock::simulation
