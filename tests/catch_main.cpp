// The main function of the test programs, for Catch2 2.
// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_MAIN
#include "catch.h"
