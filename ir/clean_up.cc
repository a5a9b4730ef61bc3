// SPDX-License-Identifier: Apache-2.0
#include "ir/clean_up.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "ir/passes/split_loops.h"

namespace tilec::ir {

namespace {

std::vector<PassStep> StepsOf(std::span<const PassId> ids) {
  std::vector<PassStep> steps;
  for (PassId id : ids) steps.push_back(StepOf(id));
  return steps;
}
const PassId* CleanUpRows() {
  return std::find(std::begin(kCleanUp), std::end(kCleanUp), PassId::kKeepRows);
}

}  // namespace

std::vector<PassStep> CleanUpUntilRows() { return StepsOf({std::begin(kCleanUp), CleanUpRows()}); }
std::vector<PassStep> CleanUpOfRows() { return StepsOf({CleanUpRows(), std::end(kCleanUp)}); }

std::optional<Function> LoopsOfRows(const Function& fn) {
  if (!HasSeveralLoops(fn)) return std::nullopt;
  if (std::any_of(fn.ops.begin(), fn.ops.end(),
                  [](const Op& op) { return op.kind == OpKind::kDot; }))
    return std::nullopt;
  return fn;
}

std::optional<Obstacle> SplitLoopsOfRows(Function& loops, int64_t ctas, const Target& target) {
  if (!target.Has("clusters")) return Obstacle{kNoClusters, {}};
  if (auto obstacle = SplitLoops(loops, ctas)) return obstacle;
  DiagSink quiet;
  if (!RunSteps(loops, CleanUpOfRows(), target, {}, quiet).ok())
    return Obstacle{"its parts cannot be cleaned up", {}};
  return std::nullopt;
}

}  // namespace tilec::ir
