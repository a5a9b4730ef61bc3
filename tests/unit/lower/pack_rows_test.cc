// pack-rows: the same bits from tiles whose rows are of several heads, and only where rows do not
// meet and heads differ in nothing else.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/pack_rows.h"

#include "tests/unit/lower/attention_text.h"

namespace tilec::ir {
namespace {

Function Packed(const Function& fn, int64_t heads) {
  Function out = fn;
  const std::optional<Obstacle> obstacle = PackRows(out, heads);
  EXPECT_FALSE(obstacle) << obstacle->why;
  ExpectVerified(out);
  return out;
}

// Heads that are no multiple of what a tile takes, queries that are not, groups of one.
TEST(PackRows, SameBitsForEverySize) {
  const Function before = Parsed(Attention());
  for (int64_t heads : {2, 4, 16}) {
    const Function after = Packed(before, heads);
    for (const auto& [h, g] : {std::pair{8, 2}, {6, 2}, {3, 3}, {5, 1}})
      for (int64_t s : {1, 3, 16, 21})
        EXPECT_EQ(Attended(before, h, g, s, 40), Attended(after, h, g, s, 40))
            << heads << " " << h << " " << g << " " << s;
  }
}

TEST(PackRows, OneTileForTheHeadsOfAGroup) {
  const Function fn = Packed(Parsed(Attention()), 8);
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kParallel) {
      EXPECT_EQ(op.ints("steps"), (std::vector<int64_t>{2, 1}));
    }
    if (op.kind == OpKind::kStore ||
        (op.kind == OpKind::kLoad && fn.param(op.operands[0])->name == "Q")) {
      EXPECT_EQ(op.s("modes"), "frr");
      EXPECT_EQ(op.ints("sizes"), (std::vector<int64_t>{8, 2, 32}));
    }
  }
}

std::string WhyNotPacked(const std::string& text, int64_t heads = 4) {
  Function fn = Parsed(text);
  const std::string before = Print(fn);
  const std::optional<Obstacle> obstacle = PackRows(fn, heads);
  EXPECT_EQ(Print(fn), before);
  return obstacle ? obstacle->why : "";
}

TEST(PackRows, NotWhere) {
  const std::string text = Attention();
  // A tile has no 32nd of its 16 rows.
  EXPECT_EQ(WhyNotPacked(text, 32), "a tile has no such part of the rows");
  // Each head has keys of its own.
  EXPECT_EQ(WhyNotPacked(With(text, "%g = div %h, %R : i64", "%g = add %h, %0 : i64")),
            "no range of its grid is cut into groups");
  // Which head it is matters to more than whose rows they are.
  EXPECT_EQ(
      WhyNotPacked(With(text, "%mo = mul %m0, %c1 : f32[16]",
                        "%hf = cast %h : f32\n        %ht = broadcast %hf {axes = []} : f32[16]\n"
                        "        %mo = mul %m0, %ht : f32[16]")),
      "no range of its grid is cut into groups");
  // Rows are added up; a row looks at a position of its own in the tile.
  EXPECT_EQ(WhyNotPacked(
                With(text, "%f = exp2 %da : f32[16]",
                     "%f0 = exp2 %da : f32[16]\n        %all = reduce %f0 {kind = \"sum\", axis = "
                     "0} : f32\n        %f = broadcast %all {axes = []} : f32[16]")),
            "its rows meet");
  EXPECT_EQ(
      WhyNotPacked(With(text, "%rows1 = reshape %rows : i32[16, 1]",
                        "%own = iota %0 : i32[16]\n      %rows2 = add %rows, %own : i32[16]\n      "
                        "%rows1 = reshape %rows2 : i32[16, 1]")),
      "its rows meet");
  // Which tile it is matters.
  EXPECT_EQ(WhyNotPacked(With(text, "%qe = add %q, %n : i64",
                              "%qn = div %q, %n : i64\n      %qe = mul %qn, %n : i64")),
            "it computes with its position in the grid");
}

}  // namespace
}  // namespace tilec::ir
