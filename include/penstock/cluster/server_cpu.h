// How much CPU the cluster's masters have used, by their own INFO. Blocking; a connection each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "penstock/cluster/topology.h"

namespace penstock::cluster {

struct NodeLogin {
  std::string username, password;
};

// Seconds since the masters began, all together; none when one of them does not tell in time.
// `dial` makes a connected blocking socket to a node, or -1.
std::optional<double> server_cpu(
    const Topology& topology, const NodeLogin& login, std::chrono::milliseconds limit,
    const std::function<int(const Endpoint&, std::chrono::milliseconds)>& dial);

}  // namespace penstock::cluster
