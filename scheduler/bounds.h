// Lower bounds on the initiation interval that need no search, each naming what binds.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "scheduler/graph.h"

namespace tilec::scheduler {

struct Bound {
  enum class Kind { kUnit, kRecurrence, kIssue, kResidency };
  Kind kind = Kind::kUnit;
  int64_t ii = 1;
  int unit = -1;           // kUnit
  std::vector<int> ops;    // the unit's users; the recurrence's ops in order
  std::vector<int> edges;  // kRecurrence: the cycle
  std::string text;        // "the tensor unit is busy 2048 cycles per iteration"
};

// ⌈Σ cycles / capacity⌉ per unit; the largest recurrence ⌈Σ delay / Σ distance⌉; the issue bound of
// roles that cannot be split (crossable = false, carried registers); memory residency
// ⌈Σ bytes · shortest life / capacity⌉. All bounds > 0, largest first.
std::vector<Bound> AllBounds(const Graph& graph);
// The largest; ii >= 1.
Bound BestBound(const Graph& graph);
// Its ii, found without saying why.
int64_t LeastPeriod(const Graph& graph);

}  // namespace tilec::scheduler
