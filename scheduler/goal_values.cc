// SPDX-License-Identifier: Apache-2.0
#include "scheduler/goal_values.h"

#include <algorithm>
#include <limits>

namespace tilec::scheduler {

namespace {
constexpr size_t kMostValues = 2000;  // beyond it a step of the bisection is rarely spared
}

GoalValues::GoalValues(int64_t least, const std::vector<std::pair<int64_t, int>>& parts)
    : any_(false), values_{least} {
  for (const auto& [size, count] : parts)
    for (int i = 0; i < count && !any_; ++i) {
      std::vector<int64_t> with = values_, both;
      for (int64_t& value : with) value += size;
      both.reserve(2 * with.size());
      std::merge(values_.begin(), values_.end(), with.begin(), with.end(),
                 std::back_inserter(both));
      both.erase(std::unique(both.begin(), both.end()), both.end());
      any_ = both.size() > kMostValues;
      values_ = std::move(both);
    }
}

int64_t GoalValues::AtMost(int64_t bound) const {
  if (any_) return bound;
  const auto above = std::upper_bound(values_.begin(), values_.end(), bound);
  return above == values_.begin() ? std::numeric_limits<int64_t>::min() : *(above - 1);
}

}  // namespace tilec::scheduler
