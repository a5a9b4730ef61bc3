// Tiles on their way through the tensor core, in one straight execution of a role: which product is
// under way, which registers it may still read or write. All warps of a role do the same here, so
// the order of other roles does not matter.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

class CoreTiles {
 public:
  explicit CoreTiles(const Function& fn) : fn_(&fn) {}

  void Do(OpId id);  // an op without regions
  // What control passes on, under other names, at once.
  void Pass(const std::vector<ValueId>& from, size_t first_from, const std::vector<ValueId>& to,
            size_t first_to);
  // "", or the first use of registers that a product may have to itself.
  const std::string& fault() const { return fault_; }

 private:
  struct Product {
    int64_t group = -1;    // -1: not committed
    int64_t operand = -1;  // in registers, as a fence numbered it; -1: none
  };
  void Issue(const Op& op);
  void Await(const Op& op);
  void Fault(const char* what, const Op& op);

  const Function* fn_;
  std::map<int64_t, Product> flying_;   // by number
  std::map<ValueId, int64_t> made_by_;  // tiles that are results of products, as not yet awaited
  std::map<ValueId, int64_t> fenced_;   // with the number of the fence
  int64_t issued_ = 0, groups_ = 0, fences_ = 0;
  std::string fault_;
};

}  // namespace tilec::ir
