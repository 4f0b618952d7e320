// Which keys may be kept, by the configuration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/config/glob.h"

namespace penstock::cache {

struct KeyFilter {
  std::vector<std::string> prefixes;  // one of them; none: any key
  std::vector<std::string> never;     // none of these patterns

  bool allows(std::string_view key) const {
    const bool in = prefixes.empty() ||
                    std::any_of(prefixes.begin(), prefixes.end(),
                                [key](const auto& prefix) { return key.starts_with(prefix); });
    return in && std::none_of(never.begin(), never.end(), [key](const auto& pattern) {
             return config::matches_glob(pattern, key, config::GlobCase::exact);
           });
  }
};

}  // namespace penstock::cache
