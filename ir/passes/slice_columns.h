// What stands behind a sum that the CTAs of a cluster make together, cut along the sum's columns:
// each CTA computes and stores its own run of them.
//
// If one CTA has the whole sum, what the others added up comes to it, they wait, and one SM stores
// for all. Where everything behind the loop follows the columns (elementwise work, rows and columns
// that are broadcast, transposes, loads of the same place), the one crossing of what is added up
// will do, and as many SMs store as there are slices.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

// Into how many slices of whole eights columns are cut for so many CTAs; 1: into none. Fewer than
// half of the CTAs would read as much for themselves as one that collects.
int64_t SlicesOf(int64_t columns, int64_t ctas);

class ColumnSlices {
 public:
  // `sums`: tiles of two dims and one shape, whose columns are cut. `tail`: ops that stand behind
  // what makes them.
  ColumnSlices(const Function& fn, const std::vector<ValueId>& sums, const std::vector<OpId>& tail);

  // May the tail be cut?
  bool Possible() const { return possible_; }
  // … and this tile along `dim`, which is as long as the columns?
  bool MayCut(ValueId v, int64_t dim) const;

  // What is made from now on begins at column `first` of the whole tile.
  void Begin(ValueId first, int64_t width) { first_ = first, width_ = width; }
  // Those columns of a tile, which lie along `dim`.
  ValueId Of(Builder& b, ValueId v, int64_t dim);
  // The tail's stores, of `slices` by sum.
  void Store(Builder& b, const std::map<ValueId, ValueId>& slices);

 private:
  bool Follow(const Op& op);
  bool MayCutLoad(const Op& op, int64_t dim) const;
  bool StoredAsLoaded(const Op& load) const;

  const Function& fn_;
  const std::vector<OpId>& tail_;
  bool possible_ = true;
  int64_t columns_ = 0;
  std::map<ValueId, int64_t> dims_;  // of values that hang on the sums: which dim the columns are
  std::vector<OpId> stores_;
  // While stores are made.
  std::map<std::pair<ValueId, int64_t>, ValueId> made_;
  ValueId first_;
  int64_t width_ = 0;
};

}  // namespace tilec::ir
