// Makes instances of a grid that differ in whose rows they compute rows of one tile.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/passes/pack_rows.h"
#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {

class RowPacker {
 public:
  RowPacker(Function& fn, int64_t heads) : fn_(fn), heads_(heads), uses_(fn) {}
  std::optional<Obstacle> Run();

 private:
  // Of a tile: the dim along which its rows lie, −1: it is the same for all rows; other dims along
  // which it varies, a bit each.
  struct Rows {
    int64_t dim = -1;
    uint64_t others = 0;
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  static Obstacle No(std::string why, Span at) { return {std::move(why), at}; }
  bool IsInt(ValueId v, int64_t n) const;
  ValueId Arg(size_t d) const { return fn_.blocks[fn_.ops[grid_].regions[0]].args[d]; }
  bool CutIntoGroups(ValueId h);
  bool OfTheLaunch(ValueId v) const;
  static size_t DimOf(const Op& access, size_t operand);
  static size_t OperandOf(const Op& access, size_t dim);
  std::optional<Obstacle> Look();
  Rows Of(ValueId v) const;
  std::optional<Obstacle> Follow(BlockId block);
  std::optional<Obstacle> FollowOp(OpId id);
  std::optional<Obstacle> Moves(const Op& op);
  std::optional<Obstacle> Accesses(OpId id);
  std::optional<Obstacle> FollowLoop(OpId id);
  void Rewrite();
  ValueId OfLaunch(Builder& b, ValueId v, ValueMap& map);
  static ValueId UpTo(Builder& b, ValueId n, ValueId by);
  void Change(BlockId block, Forwarding& forward);
  void TakeMade(BlockId block, std::vector<OpId>& out);
  ValueId Positions(OpId iota, BlockId block);
  void Widen(OpId id, size_t h, BlockId block);

  Function& fn_;
  const int64_t heads_;
  const Uses uses_;
  OpId grid_;
  size_t h_ = 0, q_ = 0;             // ranges of the grid
  int64_t rows_ = 0;                 // of a tile
  ValueId share_;                    // R
  std::map<OpId, size_t> accesses_;  // of its rows: the tensor's dim of h
  std::set<ValueId> scalars_;        // that hang on q
  std::map<ValueId, Rows> of_;
  std::vector<OpId> iotas_;
  struct {
    ValueId h, q, group, first, end;
    int64_t rows = 0;
    std::set<OpId> made;
  } part_;  // of the tile that heads of a group share
};

}  // namespace tilec::ir
