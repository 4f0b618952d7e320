// Which pipes a session uses, its worker's own or the shared ones, and when it may change them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "session/session.h"

namespace penstock::session {
namespace {

// After so many receives with something in flight, a session that is to change its pipes is paused.
constexpr std::uint8_t kSwitchTries = 8;

// Receives of the other kind in a row that change the verdict whether a session pipelines.
constexpr int kDepthScoreMax = 8;

}  // namespace

// Before it takes requests that have arrived: what it has learnt of the client, and which pipes it
// is to use.
void Session::choose_pipes() {
  if (context_.mode == sharding::Mode::mixed) note_depth();
  if (wants_shared() == shares_) {
    switch_tries_ = 0;
  } else if (wait_ == Wait::none && !switch_pipes()) {
    wait(Wait::replies);
  }
}

// Own pipes or shared ones: it changes when nothing is in flight, so that no request can overtake
// an earlier one. One that always has something in flight is paused for a round. False: it has to
// wait for its replies.
bool Session::switch_pipes() {
  if (context_.reactor.now() < keep_pipes_until_) return true;
  if (!sequencer_.empty()) {
    switch_tries_ = std::min<std::uint8_t>(switch_tries_ + 1, kSwitchTries);
    return switch_tries_ < kSwitchTries;
  }
  switch_tries_ = 0;
  shares_ = !shares_;
  context_.stats.pipe_switches.add();
  return true;
}

void Session::keep_pipes() {
  const config::Config& config = context_.config;
  keep_pipes_until_ = context_.reactor.now() + config.backend.request_timeout.count() * 1000;
}

// Whether it pipelines: an unpipelined client sends nothing while it waits for a reply, and one
// request at a time. A few receives are needed to change the verdict.
void Session::note_depth() {
  const bool pipelines = !sequencer_.empty() || sequencer_.next() - depth_mark_ > 1;
  depth_mark_ = sequencer_.next();
  const int step = pipelines ? 1 : -1;
  const int score = depth_score_ + step;
  if (depth_score_ != 0 && score == 0) {
    depth_score_ = static_cast<std::int8_t>(step * kDepthScoreMax);
  } else {
    depth_score_ = static_cast<std::int8_t>(std::clamp(score, -kDepthScoreMax, kDepthScoreMax));
  }
}

}  // namespace penstock::session
