// Tells systemd how the daemon is doing (sd_notify(3), without its library).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace penstock::server {

// Does nothing when no service manager asked to be told.
void notify_service_manager(std::string_view state);

}  // namespace penstock::server
