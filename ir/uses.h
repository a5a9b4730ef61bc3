// Who reads each value of a function: every operand of every op that stands in it, in program
// order. A snapshot: ops that are added or changed later are not in it, and of values that did not
// exist then nobody may ask.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

class Uses {
 public:
  struct Use {
    OpId reader;
    size_t operand;
  };

  explicit Uses(const Function& fn) : begin_(static_cast<size_t>(fn.values.size()) + 1) {
    const std::vector<OpId> order = OpsInOrder(fn);
    for (OpId id : order)
      for (ValueId v : fn.ops[id].operands) ++begin_[At(v) + 1];
    for (size_t v = 1; v < begin_.size(); ++v) begin_[v] += begin_[v - 1];
    all_.resize(begin_.back());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (OpId id : order) {
      const std::vector<ValueId>& operands = fn.ops[id].operands;
      for (size_t i = 0; i < operands.size(); ++i) all_[next[At(operands[i])]++] = {id, i};
    }
  }

  std::span<const Use> of(ValueId v) const { return {all_.data() + begin_[At(v)], count(v)}; }
  size_t count(ValueId v) const { return begin_[At(v) + 1] - begin_[At(v)]; }

 private:
  size_t At(ValueId v) const {
    CHECK(static_cast<size_t>(v.index) + 1 < begin_.size(), "id out of range");
    return static_cast<size_t>(v.index);
  }

  std::vector<Use> all_;       // value by value
  std::vector<size_t> begin_;  // of each value's, and the end
};

}  // namespace tilec::ir
