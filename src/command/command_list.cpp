// The generated list of commands.
// SPDX-License-Identifier: Apache-2.0
#include "command/command_list.h"

namespace penstock::command {
namespace {

using Begin = KeySpec::Begin;
using Find = KeySpec::Find;

const Command kCommands[] = {
#include "command/command_list.inc"
};

}  // namespace

std::span<const Command> generated_commands() { return kCommands; }

}  // namespace penstock::command
