// Makes a grid of tiles one of CTAs that stay, or puts its tiles into another order.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ir/passes/persist_tiles.h"

namespace tilec::ir {

class PersistentGrid {
 public:
  PersistentGrid(Function& fn, int64_t ctas) : fn_(fn), ctas_(ctas) {}
  std::optional<Obstacle> Run();
  bool Order();

 private:
  // How a number follows the place of a tile along one range.
  enum class Slope { kNone, kRises, kFalls, kUnknown };
  static Slope Turned(Slope s) {
    return s == Slope::kRises ? Slope::kFalls : s == Slope::kFalls ? Slope::kRises : s;
  }
  static Slope Together(Slope a, Slope b) {
    if (a == Slope::kNone) return b;
    return b == Slope::kNone || a == b ? a : Slope::kUnknown;
  }
  std::optional<Obstacle> Look();
  bool HasProductLoop(BlockId block, bool in_loop) const;
  bool Loads(OpId loop) const;
  bool HasProduct(BlockId block) const;
  bool DependsOn(ValueId v, ValueId arg, int depth = 0) const;
  Slope SlopeOf(ValueId v, ValueId arg, int depth = 0) const;
  Slope Length(OpId id, ValueId arg, OpId* loop) const;
  std::optional<double> Growth(ValueId v, ValueId arg, int depth = 0) const;
  bool TogetherEven(BlockId body, ValueId arg) const;
  bool EvenInRounds(size_t dim, size_t dims, OpId loop) const;
  void Rewrite(bool stay);
  double Shared(BlockId block, ValueId arg, bool in_loop);
  bool ReadAlong(BlockId block, ValueId arg, bool in_loop) const;
  bool SameAlong(const Op& load, ValueId arg) const;
  bool ReadFromMemory(ValueId v) const;
  bool Follows(ValueId v, ValueId arg) const;
  static double TileBytes(const Type& type) {
    return double(type.is_tile() ? type.elements() : 1) * Info(type.dtype).bits / 8;
  }

  // Tiles are numbered in 32 bits, as the hardware numbers CTAs: divisions of 64 bits would take
  // hundreds of cycles of every tile. Tensors of more tiles exist in no memory.
  static constexpr DType kNarrow = DType::kU32;
  struct Tiles {
    ValueId none;                 // zero
    std::vector<ValueId> counts;  // along each range of the grid
    ValueId all;
  };
  Tiles CountTiles(Builder& b, const Op& grid, const std::vector<int64_t>& steps);
  void FewTiles(ValueId tiles, Span at);
  std::vector<ValueId> Place(Builder& b, ValueId t, const std::vector<ValueId>& counts);
  void LongestFirst(Builder& b, ValueId t, const std::vector<ValueId>& counts,
                    std::vector<ValueId>* index);
  void Heads(Builder& b, const std::vector<ValueId>& counts);
  ValueId InSections(Builder& b, ValueId t, ValueId tiles);
  ValueId Dealt(Builder& b, ValueId cta, ValueId t);
  ValueId EndOfTurns(Builder& b, ValueId cta, ValueId tiles);
  ValueId EqualSections(Builder& b, const std::vector<ValueId>& counts);
  ValueId Section(Builder& b, ValueId t, const std::vector<ValueId>& counts,
                  std::vector<ValueId>* index);

  Function& fn_;
  int64_t ctas_;         // that run at once; of clusters: how many of these
  int64_t cluster_ = 1;  // CTAs of one
  OpId grid_;
  int64_t section_rows_ = 0;  // that are best; 0: tiles go in lines
  ValueId section_;           // rows that sections have
  struct Range {
    size_t dim;
    bool rises;  // later tiles take longer
  };
  std::map<ValueId, OpId> position_of_;  // loops, by their positions
  std::optional<Range> uneven_;          // along which tiles take unequally long
  bool in_sections_ = false;             // of heads: places along the other ranges
  ValueId heads_, heads_of_section_, equal_sections_;
};

}  // namespace tilec::ir
