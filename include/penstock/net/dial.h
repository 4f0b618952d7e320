// Connects a blocking socket within a time limit, for the few places off the data path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "penstock/net/address.h"

namespace penstock::net {

// A connected socket whose reads and writes also give up after `timeout`, or -1 (errno says why).
int dial(const Address& address, std::chrono::milliseconds timeout);

}  // namespace penstock::net
