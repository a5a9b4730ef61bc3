// Slices of columns: which there are, that each CTA stores its own and nobody another's, what keeps
// them from being made, and a proof of what others read until the CTAs meet.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/slice_columns.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/lower/helper.h"
#include "tests/unit/lower/product.h"

namespace tilec::ir {
namespace {

// Of its one cluster_reduce; 0: the first CTA has it all.
int64_t SlicesIn(const Function& fn) {
  int64_t found = -1;
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kClusterReduce) found = fn.ops[id].i("slices", 0);
  return found;
}

TEST(SliceColumns, WholeEightsOfOneWidth) {
  const auto is = [](int64_t columns, int64_t ctas, int64_t count, int64_t width) {
    const Slices s = SlicesOf(columns, ctas);
    return s.count == count && (count == 1 || s.width == width);
  };
  EXPECT_TRUE(is(128, 8, 8, 16));
  EXPECT_TRUE(is(96, 8, 6, 16));
  EXPECT_TRUE(is(200, 8, 7, 32));  // the last has eight
  EXPECT_TRUE(is(88, 8, 6, 16));
  EXPECT_TRUE(is(56, 8, 7, 8));
  EXPECT_TRUE(is(32, 8, 4, 8));
  EXPECT_TRUE(is(128, 3, 3, 48));
  EXPECT_TRUE(is(24, 8, 1, 0));   // three CTAs would read as much as one that collects
  EXPECT_TRUE(is(100, 4, 1, 0));  // no whole eights
  EXPECT_TRUE(is(8, 2, 1, 0));
  for (int64_t columns = 16; columns <= 256; columns += 8)
    for (int64_t ctas = 2; ctas <= 8; ++ctas)
      if (const Slices s = SlicesOf(columns, ctas); s.count > 1) {
        EXPECT_LE(s.count, ctas);
        EXPECT_GE(s.count * s.width, columns);
        EXPECT_LT((s.count - 1) * s.width, columns);
      }
}

Function ProductOfColumns(int64_t columns) { return Parsed(ProductText("%K", columns)); }

// Even slices, a shorter last one, rows and columns that hang over, more CTAs than turns.
TEST(SliceColumns, SameResults) {
  for (int64_t columns : {32, 40, 72, 104, 128}) {
    const Function before = ProductOfColumns(columns);
    for (int64_t ctas : {2, 3, 5, 8}) {
      const Function after = Split(before, ctas);
      const Slices slices = SlicesOf(columns, ctas);
      EXPECT_EQ(SlicesIn(after), slices.count > 1 ? slices.count : 0) << columns << " " << ctas;
      for (int64_t k : {0, 31, 260})
        for (int64_t n : {40, 208})
          EXPECT_EQ(Exact(before, 70, n, k), Exact(after, 70, n, k))
              << columns << " " << ctas << " " << k << " " << n;
    }
  }
}

// The store of a shorter slice ends inside of its tile: no copy that is clipped by the tensor
// alone.
TEST(SliceColumns, AShorterSliceIsNotStoredByACopy) {
  for (const auto& [columns, inside] : {std::pair(128, 0), std::pair(104, 1)}) {
    const Function fn = Split(ProductOfColumns(columns), 4);
    for (OpId id : OpsInOrder(fn)) {
      if (fn.ops[id].kind != OpKind::kStore) continue;
      EXPECT_EQ(fn.ops[id].i("ends_inside", 0), inside);
    }
    if (inside == 0) continue;
    const Function warps = InRoles(fn);
    EXPECT_EQ(Count(warps, OpKind::kTmaStore), 0);
    EXPECT_EQ(Count(warps, OpKind::kGStore), 1);
  }
}

// What looks across columns, or writes anything else, is the first CTA's as before.
TEST(SliceColumns, NotWhere) {
  const std::string store = "store %C, %c, %m, %mend, %n, %nend {modes = \"rr\", sizes = [64, 32]}";
  const auto with = [&](const std::string& text) {
    return SlicesIn(Split(Product("%K", store, text), 4));
  };
  EXPECT_EQ(with(store), 4);
  // A vector of columns, broadcast by way of one row.
  const std::string vector =
      "%v0 = load %A, %m, %n {modes = \"sr\", sizes = [1, 32]} : bf16[32]\n      %v1 = cast %v0 : "
      "f32[32]\n      %v2 = reshape %v1 : f32[1, 32]\n      %v3 = broadcast %v2 {axes = [0, 1]} : "
      "f32[64, 32]\n      %e = add %c, %v3 : f32[64, 32]\n      ";
  EXPECT_EQ(with(vector + With(store, "%c", "%e")), 4);
  EXPECT_EQ(with("%e = exp %c : f32[64, 32]\n      " + With(store, "%c", "%e")), 4);
  EXPECT_EQ(with("%r = reduce %c {axis = 1, kind = \"sum\"} : f32[64]\n      %e = broadcast %r "
                 "{axes = [0]} : f32[64, 32]\n      " +
                 With(store, "%c", "%e")),
            0);
  EXPECT_EQ(
      with("store %C, %z, %m, %mend, %n, %nend {modes = \"rr\", sizes = [64, 32]}\n      " + store),
      0);
  // A warpgroup's own columns are no run of registers of all threads.
  EXPECT_EQ(SlicesIn(Split(ProductOfColumns(256), 4)), 0);
}

// No barrier says that others have read: nobody may use the buffer behind, and CTAs meet at the
// end.
TEST(SliceColumns, WhatOthersReadIsKept) {
  const Function warps = InRoles(Split(Product("%K"), 4));
  EXPECT_EQ(Said(warps), "");
  const OpId reduce = Find(warps, OpKind::kWarpClusterReduce);
  const Op op = warps.ops[reduce];
  EXPECT_EQ(warps.type(op.operands[2]).depth, 1);

  Function again = warps;
  Builder b(again, op.block);
  const ValueId slot = b.Int(0, DType::kI32);
  const OpId load =
      b.Add(OpKind::kSmemLoad, {op.operands[1], slot}, {again.type(op.operands[0])}, {});
  std::vector<OpId>& ops = again.blocks[op.block].ops;
  const OpId number = again.values[slot].def;
  std::erase_if(ops, [&](OpId id) { return id == load || id == number; });
  ops.insert(std::find(ops.begin(), ops.end(), reduce) + 1, {number, load});
  EXPECT_NE(Said(again).find("uses what other CTAs read"), std::string::npos) << Said(again);

  Function meets = warps;
  int32_t last = 0;
  for (OpId id : meets.blocks[meets.body].ops)
    if (meets.ops[id].kind == OpKind::kClusterSync) last = id.index;
  std::erase_if(meets.blocks[meets.body].ops, [&](OpId id) { return id.index == last; });
  EXPECT_NE(Said(meets), "") << "nobody waits for those that read at its end";
}

}  // namespace
}  // namespace tilec::ir
