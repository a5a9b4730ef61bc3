// SPDX-License-Identifier: Apache-2.0
#include "support/nearest.h"

#include <algorithm>
#include <cctype>
#include <climits>

namespace tilec {

namespace {

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Restricted edit distance in half steps (a change of case costs `case_cost`, all else 2).
int Distance(std::string_view a, std::string_view b, int case_cost) {
  const size_t width = b.size() + 1;
  std::vector<int> before(width), above(width), row(width);
  for (size_t j = 0; j < width; ++j) above[j] = static_cast<int>(2 * j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(2 * i);
    for (size_t j = 1; j < width; ++j) {
      const int replace = a[i - 1] == b[j - 1]                 ? 0
                          : Lower(a[i - 1]) == Lower(b[j - 1]) ? case_cost
                                                               : 2;
      row[j] = std::min({above[j] + 2, row[j - 1] + 2, above[j - 1] + replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 2);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string NearestName(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kMaxLength = 128;  // damaged input is not searched for
  if (name.empty() || name.size() > kMaxLength) return "";
  // One typo in a short name, one per three letters in a long one.
  const int allowed = 2 * std::max<int>(1, static_cast<int>(name.size()) / 3);
  std::string best;
  int best_distance = INT_MAX;
  for (const std::string& c : candidates) {
    if (c.size() > kMaxLength || c.empty()) continue;
    const int typos = Distance(name, c, 0);
    // Replacing every letter is no typo.
    if (typos > allowed || typos >= 2 * static_cast<int>(std::max(name.size(), c.size()))) continue;
    const int d = Distance(name, c, 1);
    if (d < best_distance) best = c, best_distance = d;
  }
  return best;
}

}  // namespace tilec
