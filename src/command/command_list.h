// The generated list of commands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "penstock/command/command.h"

namespace penstock::command {

std::span<const Command> generated_commands();

}  // namespace penstock::command
