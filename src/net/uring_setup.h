// Makes an io_uring with the flags and features that the back end needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <liburing.h>

#include "penstock/net/reactor.h"

namespace penstock::net {

// Throws std::system_error when the kernel has none of the kinds of rings that will do.
void set_up_ring(io_uring& ring, const ReactorOptions& options);

}  // namespace penstock::net
