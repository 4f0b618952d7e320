// The keys of the configuration as data: name, comment, what is allowed, how to read and print it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <toml++/toml.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "penstock/config/config.h"

namespace penstock::config {

struct Key {
  std::string name;     // "section.key"
  std::string comment;  // what it does, one or more sentences
  std::string allowed;  // "a whole number from 1 to 64", ...
  bool secret = false;  // true exactly when its value must not be shown
  // Stores the value and returns null. When it is of the wrong type or out of range: stores nothing
  // and returns what is wrong, the value itself or an element of a list.
  std::function<const toml::node*(Config&, const toml::node&)> read;
  // The value as TOML.
  std::function<std::string(const Config&)> print;
};

const std::vector<Key>& schema();
const Key* find_key(std::string_view name);

}  // namespace penstock::config
