// Loops whose turns the CTAs of a cluster take apart (ir/passes/loop_parts.h): how much farther
// than the interpreter, which takes all turns in their order, what they carry may stray.
//
// The language lets a loop's sum be taken in parts of neighbouring turns (spec, 14). With S the sum
// up to some addition of the loop, S_a the one where its part begins, a part has P = S − S_a there
// and rounds it. Both orders round, so each addition strays by
//     u·|S| + u·|P|  ≤  u·(2·|S| + H)               H: the largest |S| between turns so far
// and a product, which rounds what it adds to K' times (ir/interpret_dot.cc), by u·K'·H more than
// it says. p parts C of |C| ≤ 2H are added up in an order of their own, and to what the loop
// started from. Any of them make at most p/2 runs of neighbours, so all they round is p·H at most,
// and Σ|C|:
//     u·p·min(p·H, V)                               V: Σ |S' − S| over turns; Σ|C| ≤ V
// Where a sum over n of what the loop made follows, each part takes it: (n − 1)·u·(Σ|C| − |S|)
// more.
//
// Sums relative to a largest value: H stands relative to the last one, since factors are at most 1;
// V says nothing of them. Every part is brought to the largest of all by one factor more, whose
// bound is taken to be φ, the largest (relative) one of the loop's own factors: (φ + u)·Σ|C| more.
//
// Integers that f32 holds are exact in every order.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "ir/function.h"
#include "ir/interpret_internal.h"

namespace tilec::ir::interpret_internal {

// One sum that a loop carries.
struct SumInParts {
  size_t result = 0;    // of the loop
  ValueId factor;       // of one that is relative to a largest value
  int64_t reduced = 1;  // how many elements of it are added up behind the loop
};

// All of a kernel.
struct LoopsInParts {
  int64_t parts = 1;
  std::map<ValueId, std::vector<SumInParts>> loops;  // by first result of the loop
  std::map<ValueId, ValueId> additions;              // result: the carried value it adds to
};
// Nothing for one part.
LoopsInParts FindLoopsInParts(const Function& fn, int64_t parts);

// What is known of one such sum while its loop runs.
class PartsOfSum {
 public:
  explicit PartsOfSum(const Tile& start);
  // `sum`: what an op of the loop made; a product with so many `roundings` of what it adds to,
  // others 0. `dice`: of a perturbed run, where sums do stray.
  void Addition(Tile& sum, double roundings, Dice* dice) const;
  // Behind each turn, with the factor it took, if any.
  void Turn(const Tile& sum, const Tile* factor);
  void End(Tile& sum, const SumInParts& of, int64_t parts, Dice* dice) const;

 private:
  struct Element {
    double last = 0, high = 0, farthest = 0, moved = 0, factor = 0;
    bool integral = false;
  };
  std::vector<Element> of_;
};

}  // namespace tilec::ir::interpret_internal
