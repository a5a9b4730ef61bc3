// Which positions lie before which, as far as loops, branches and smallest values say so.
//
//     hi = min(L, end);  if lo + 128 < hi { … for k in lo + 256..hi { here k − 128 + 127 < L } }
//
// A mask that compares positions does nothing where its comparison is known to hold, and a loop
// that is left after its first turn is no loop. Numbers alone (ir/integer_range.h) do not tell: L
// is the caller's. What is searched for is a chain of "a + constant ≤ b" from one end to the other.
// That holds of sums that do not wrap: of dims, positions of loops and what is at most or at least
// such. Of 64 bits that are loaded, or a caller's, nobody knows that `x + 1` is more than x.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/integer_range.h"

namespace tilec::ir {

// Remembers what it found: for one function, to which ops may be added meanwhile.
class KnownOrder {
 public:
  explicit KnownOrder(const Function& fn) : fn_(fn), ranges_(fn) {}

  // A bool scalar, wherever ops of `block` run. False: nothing is known.
  bool Holds(ValueId condition, BlockId block);
  // Has the loop no second turn?
  bool TurnsOnce(OpId loop);

 private:
  // A scalar of 64 bits and a number; no value: the number.
  struct Term {
    ValueId base;
    int64_t offset = 0;
  };
  struct Fact {  // low ≤ high
    Term low, high;
  };

  Term Of(ValueId v);
  // Is the value nowhere near the largest number of 64 bits (`above`), or the smallest?
  bool IsFar(ValueId v, bool above);
  bool FindFar(ValueId v, bool above);
  bool AtMost(Term x, Term y, const std::vector<Fact>& facts, int steps);
  bool ByOperands(const Term& x, const Term& y, const std::vector<Fact>& facts, int steps);
  bool ByNumbers(const Term& x, const Term& y);
  const std::vector<Fact>& FactsOf(BlockId block);
  void Collect(ValueId condition, bool holds, std::vector<Fact>& facts);

  const Function& fn_;
  IntegerRanges ranges_;
  std::map<BlockId, std::vector<Fact>> facts_;  // what branches around a block say
  std::map<std::pair<ValueId, bool>, bool> far_;
};

}  // namespace tilec::ir
