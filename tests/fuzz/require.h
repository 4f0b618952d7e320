// What a fuzz target demands: a false condition ends the run, and the fuzzer keeps the input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

#define REQUIRE(condition)                                                             \
  do {                                                                                 \
    if (!(condition)) [[unlikely]] {                                                   \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);   \
      std::abort();                                                                    \
    }                                                                                  \
  } while (false)
