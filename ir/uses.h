// Who reads each value of a function: every operand of every op that stands in it, in program
// order. A snapshot: ops that are added or changed later are not in it, and of values that did not
// exist then nobody may ask.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/function.h"

namespace tilec::ir {

class Uses {
 public:
  struct Use {
    OpId reader;
    size_t operand;
  };

  explicit Uses(const Function& fn) {
    for (int32_t i = 0; i < fn.values.size(); ++i) of_.Add({});
    for (OpId id : OpsInOrder(fn)) {
      const std::vector<ValueId>& operands = fn.ops[id].operands;
      for (size_t i = 0; i < operands.size(); ++i) of_[operands[i]].push_back({id, i});
    }
  }

  const std::vector<Use>& of(ValueId v) const { return of_[v]; }
  size_t count(ValueId v) const { return of_[v].size(); }

 private:
  IdVector<ValueId, std::vector<Use>> of_;
};

}  // namespace tilec::ir
