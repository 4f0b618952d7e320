// The server's glob patterns (util.c's stringmatchlen).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "penstock/config/glob.h"

namespace penstock::config {
namespace {

// Folds case, or does not.
template <GlobCase kCase>
char lower(char c) {
  return kCase == GlobCase::ignored && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

// Consumes one "[...]" class of the pattern and says whether it has `c`.
template <GlobCase kCase>
bool matches_class(std::string_view& pattern, char c) {
  pattern.remove_prefix(1);
  const bool negated = pattern.starts_with('^');
  if (negated) pattern.remove_prefix(1);
  bool found = false;
  while (!pattern.empty() && pattern[0] != ']') {
    if (pattern[0] == '\\' && pattern.size() > 1) {
      found = found || lower<kCase>(pattern[1]) == c;
      pattern.remove_prefix(2);
    } else if (pattern.size() > 2 && pattern[1] == '-') {
      const char first = lower<kCase>(pattern[0]), last = lower<kCase>(pattern[2]);
      found = found || (c >= std::min(first, last) && c <= std::max(first, last));
      pattern.remove_prefix(3);
    } else {
      found = found || lower<kCase>(pattern[0]) == c;
      pattern.remove_prefix(1);
    }
  }
  if (!pattern.empty()) pattern.remove_prefix(1);
  return found != negated;
}

// Consumes one element of the pattern that is not '*' and says whether it matches `c`.
template <GlobCase kCase>
bool matches_one(std::string_view& pattern, char c) {
  if (pattern[0] == '[') return matches_class<kCase>(pattern, lower<kCase>(c));
  if (pattern[0] == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
  const bool any = pattern[0] == '?';
  const bool same = lower<kCase>(pattern[0]) == lower<kCase>(c);
  pattern.remove_prefix(1);
  return any || same;
}

// Goes back only to the last '*': linear in pattern times text, whatever the pattern.
template <GlobCase kCase>
bool matches(std::string_view pattern, std::string_view text) {
  std::string_view retry_pattern, retry_text;
  bool can_retry = false;
  while (!text.empty() || !pattern.empty()) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      retry_pattern = pattern;
      retry_text = text;
      can_retry = true;
    } else if (!text.empty() && !pattern.empty() && matches_one<kCase>(pattern, text[0])) {
      text.remove_prefix(1);
    } else if (can_retry && !retry_text.empty()) {
      retry_text.remove_prefix(1);
      pattern = retry_pattern;
      text = retry_text;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text, GlobCase glob_case) {
  return glob_case == GlobCase::exact ? matches<GlobCase::exact>(pattern, text)
                                      : matches<GlobCase::ignored>(pattern, text);
}

}  // namespace penstock::config
