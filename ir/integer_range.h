// Which integers a value can be, as far as its ops say: what is known of weights in few bits, whose
// conversion to a float loses nothing, and of scalars that positions are computed from.
//
// Numbers, known when the kernel is compiled. What a mask compares is known as sums of scalars only
// (passes/guard_masks.cc makes ops of those), and the back end, which asks what instructions make
// of it all, has LLVM's analyses (backend/small_ints.cc).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "ir/function.h"

namespace tilec::ir {

struct IntegerRange {
  int64_t least = 0, most = 0;
};
using KnownRange = std::optional<IntegerRange>;  // none: nothing is known

// Nothing where the result may not fit 64 bits.
KnownRange Plus(const KnownRange& a, const KnownRange& b);
KnownRange Times(const KnownRange& a, const KnownRange& b);

// Remembers what it found: for one function, to which ops may be added meanwhile.
class IntegerRanges {
 public:
  explicit IntegerRanges(const Function& fn) : fn_(fn) {}
  // Of every element of an integer tile, or of a scalar; nothing for floats. Never narrower than
  // the truth: an op that may wrap gives all values of its type, of which nothing is said for 64
  // bits.
  KnownRange Of(ValueId v) { return Of(v, 0); }

 private:
  KnownRange Of(ValueId v, int depth);
  KnownRange Found(ValueId v, int depth);
  KnownRange Position(ValueId v, int depth);
  KnownRange Carried(ValueId v, const Op& loop, size_t index, int depth);

  const Function& fn_;
  std::map<ValueId, KnownRange> known_;
};

inline KnownRange RangeOf(const Function& fn, ValueId v) { return IntegerRanges(fn).Of(v); }

}  // namespace tilec::ir
