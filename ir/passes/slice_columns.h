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

// Columns cut into slices of whole eights, of one width but for the last, for so many CTAs. One
// slice: they are not cut. (Where a CTA would read as much for its slice as one that collects.)
struct Slices {
  int64_t count = 1, width = 0;
  bool even(int64_t columns) const { return count * width == columns; }
};
Slices SlicesOf(int64_t columns, int64_t ctas);

class ColumnSlices {
 public:
  // `sums`: tiles of two dims and one shape, whose columns are cut for so many CTAs. `tail`: ops
  // that stand behind what makes them.
  ColumnSlices(const Function& fn, const std::vector<ValueId>& sums, const std::vector<OpId>& tail,
               int64_t ctas);

  // May the tail be cut?
  bool Possible() const { return possible_; }
  // Stores of what has none of the sums in it: they are not cut.
  const std::vector<OpId>& others() const { return others_; }
  const Slices& slices() const { return slices_; }
  // … and this tile along `dim`, which is as long as the columns?
  bool MayCut(ValueId v, int64_t dim) const;

  // What is made from now on begins at column `first` of the whole tile.
  void Begin(ValueId first) { first_ = first; }
  // Those columns of a tile, which lie along `dim`.
  ValueId Of(Builder& b, ValueId v, int64_t dim);
  // The tail's stores, of `slices` by sum.
  void Store(Builder& b, const std::map<ValueId, ValueId>& slices);

 private:
  bool Follow(const Op& op);
  bool MayCutLoad(const Op& op, int64_t dim) const;
  bool StoredAsLoaded(const Op& load) const;

  const Function& fn_;
  bool possible_ = true;
  int64_t columns_ = 0;
  Slices slices_;
  std::map<ValueId, int64_t> dims_;  // of values that hang on the sums: which dim the columns are
  std::vector<OpId> stores_, others_;
  // While stores are made.
  std::map<std::pair<ValueId, int64_t>, ValueId> made_;
  ValueId first_;
};

}  // namespace tilec::ir
