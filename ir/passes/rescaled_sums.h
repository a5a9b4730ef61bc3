// Sums that a loop keeps relative to a largest value that it also carries, as softmax does:
//
//     m' = max(m, x)      l' = l · f(m, m') + t(m')      f(m, m') = 2^(c·m − c·m')
//
// where a term t(m') is a product of one 2^(u − c·m') and what does not depend on m', or a sum of
// such. What was added up relative to m is, times f(m, n), added up relative to n; so parts that
// were added up apart become one by the loop's own f.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

struct RescaledSums {
  size_t reference = 0;            // which carried value m is
  ValueId old, next;               // m and m' in the loop
  std::map<size_t, ValueId> sums;  // by carried value: f in its shape
  std::set<OpId> roundings;        // casts of terms: relative to m'
  bool guarded = true;             // no −∞ is taken from m' but behind a comparison with it
  // Is the carried value one of these?
  bool Has(size_t i) const { return i == reference || sums.count(i) > 0; }
};

// Of a `for`; nothing where no sum is kept so, or anything else hangs on m.
std::optional<RescaledSums> FindRescaledSums(const Function& fn, OpId loop);

}  // namespace tilec::ir
