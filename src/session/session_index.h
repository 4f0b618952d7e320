// Finds a session by the token that a reply carries; an old token finds nothing.
// Belongs to one worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/backend/reply_token.h"
#include "session/session.h"

namespace penstock::session {

class SessionIndex {
 public:
  // The session a reply belongs to, or null when it is gone or is not waiting for it.
  Session* find(const backend::ReplyToken& token) {
    if (token.session >= slots_.size()) return nullptr;
    Session* session = slots_[token.session].session.get();
    if (session == nullptr || session->generation() != token.generation ||
        session->is_closing() || !session->sequencer().contains(token.sequence)) {
      return nullptr;
    }
    return session;
  }

  Session& add(SessionContext& context);
  void remove(std::uint32_t index);
  std::size_t size() const { return count_; }

  // Slots may be empty; for loops over all sessions.
  std::size_t slots() const { return slots_.size(); }
  Session* at(std::size_t slot) { return slots_[slot].session.get(); }

 private:
  struct Slot {
    std::unique_ptr<Session> session;
    std::uint32_t generation = 0;
  };

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t count_ = 0;
};

inline Session& SessionIndex::add(SessionContext& context) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.session = std::make_unique<Session>(context, index, ++slot.generation);
  ++count_;
  return *slot.session;
}

inline void SessionIndex::remove(std::uint32_t index) {
  slots_[index].session.reset();
  free_.push_back(index);
  --count_;
}

}  // namespace penstock::session
