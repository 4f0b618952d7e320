// Mutations that know where frames and numbers are; the rest is left to libFuzzer's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "resp_grammar.h"

namespace penstock::fuzz {

// The body of an LLVMFuzzerCustomMutator. `header` bytes at the front are no part of the text, and
// `piece` makes a new well-formed piece (a frame, a line) of it.
std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                   std::size_t header, const std::function<std::string(Random&)>& piece);

}  // namespace penstock::fuzz
