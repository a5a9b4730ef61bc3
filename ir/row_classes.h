// Which dims of a kernel's tiles are the same rows: classes of dims that ops tie together. Rows
// that nothing contracts, reduces or scans are independent of each other, so the kernel may be cut
// along them into slices that different warps work on.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

class RowClasses {
 public:
  explicit RowClasses(const Function& fn);
  // By what one loop says alone.
  RowClasses(const Function& fn, OpId loop);
  // Instead: the class of the dims that start at `position` where tensors are accessed.
  RowClasses(const Function& fn, ValueId position);
  // Instead: the class of that dim of the tile.
  RowClasses(const Function& fn, ValueId tile, int64_t dim);

  // The class that most tensor-core products have as their rows and along which nothing runs;
  // false: there is none.
  bool found() const { return chosen_ >= 0; }
  int64_t extent() const { return extent_; }
  // Index of the dim of `v` that lies in the class, −1: none.
  int DimOf(ValueId v) const;
  // Numbers of slices of whole 64s, ascending, 1 first.
  std::vector<int> Choices() const;

 private:
  int Node(ValueId v, int64_t dim);
  int Find(int node) const;
  void Join(ValueId a, int64_t da, ValueId b, int64_t db);
  void JoinAll(ValueId a, ValueId b);
  void Visit(BlockId block);
  void VisitOp(const Op& op);
  void VisitStructure(const Op& op);
  void VisitGather(const Op& op);
  void JoinAt(ValueId position);
  std::set<int> WholeClasses() const;
  bool CutsBoxes(int slices) const;
  void Whole(ValueId v, int64_t dim);  // something runs along this dim
  void Choose();

  const Function& fn_;
  std::map<std::pair<ValueId, int64_t>, int> nodes_;
  std::vector<int> parent_;
  std::vector<int> whole_;
  std::vector<std::pair<int, int64_t>> rows_;  // node and extent of each product's rows
  int chosen_ = -1;
  int64_t extent_ = 0;
};

}  // namespace tilec::ir
