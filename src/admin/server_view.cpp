// Adding up what several pipes, or several workers, say of a node.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/admin/server_view.h"

namespace penstock::admin {

void NodeReport::add(const NodeReport& other) {
  pipes += other.pipes;
  connected += other.connected;
  in_flight += other.in_flight;
  queued_bytes += other.queued_bytes;
  requests += other.requests;
  replies += other.replies;
  lost += other.lost;
  timeouts += other.timeouts;
  connects += other.connects;
  failures += other.failures;
  if (!other.trouble.empty()) trouble = other.trouble;
}

}  // namespace penstock::admin
