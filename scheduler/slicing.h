// Which dims of the tiles of a loop body are the same rows: classes of dims that ops tie together.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/function.h"

namespace tilec::scheduler {

class DimClasses {
 public:
  DimClasses(const ir::Function& fn, ir::OpId loop);

  // The class whose rows may be cut, with its extent; −1: none.
  int sliceable() const { return slice_; }
  int64_t extent() const { return extent_; }
  // Does the value have a dim of that class?
  bool Sliced(ir::ValueId v) const;

 private:
  int Node(ir::ValueId v, int64_t dim);
  int Find(int node) const;
  void Join(ir::ValueId a, int64_t da, ir::ValueId b, int64_t db);
  void JoinAll(ir::ValueId a, ir::ValueId b);
  void Visit(const ir::Op& op);
  void Whole(ir::ValueId v, int64_t dim);  // something runs along this dim
  void Choose();

  const ir::Function& fn_;
  std::map<std::pair<ir::ValueId, int64_t>, int> nodes_;
  std::vector<int> parent_;
  std::vector<int> whole_;
  std::vector<std::pair<int, int64_t>> rows_;  // node and extent of each product's rows
  int slice_ = -1;
  int64_t extent_ = 0;
};

}  // namespace tilec::scheduler
