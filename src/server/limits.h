// What the machine gives: descriptors and memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::server {

// Raises the soft limit of open files to `wanted`, as far as the hard limit goes; warns below it.
void raise_descriptor_limit(std::uint64_t wanted);

// `configured`, or 60 % of the memory this process may use (its cgroup's or the machine's) when 0.
std::size_t memory_limit(std::uint64_t configured);

}  // namespace penstock::server
