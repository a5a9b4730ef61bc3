// The values that one component of an objective can have: sums of parts that are there or not. A
// bisection between two of them asks about bounds that mean the same, each for what the solver may
// spend on a question.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tilec::scheduler {

class GoalValues {
 public:
  // Every integer.
  GoalValues() = default;
  // `least` and any of the parts besides, each (size > 0, how many of it).
  GoalValues(int64_t least, const std::vector<std::pair<int64_t, int>>& parts);

  // The largest value that is not above `bound`; less than any where there is none.
  int64_t AtMost(int64_t bound) const;

 private:
  bool any_ = true;
  std::vector<int64_t> values_;  // ascending
};

}  // namespace tilec::scheduler
