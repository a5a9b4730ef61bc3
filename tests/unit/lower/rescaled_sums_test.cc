// Sums that a loop keeps relative to a largest value: which are, and that CTAs may share them.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/rescaled_sums.h"

#include <cmath>

#include "ir/passes/split_reductions.h"
#include "tests/unit/lower/attention_text.h"

namespace tilec::ir {
namespace {

std::optional<RescaledSums> SumsOf(const std::string& text) {
  const Function fn = Parsed(text);
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kFor) return FindRescaledSums(fn, id);
  return std::nullopt;
}

Function InParts(const Function& fn, int64_t ctas) {
  Function out = fn;
  const std::optional<Obstacle> obstacle = SplitReductions(out, ctas, H200());
  EXPECT_FALSE(obstacle) << obstacle->why;
  ExpectVerified(out);
  return out;
}

TEST(RescaledSums, OfSoftmax) {
  const auto found = SumsOf(Attention());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->reference, 2u);
  EXPECT_EQ(found->sums.size(), 2u);
  EXPECT_EQ(found->roundings.size(), 1u);
  EXPECT_FALSE(found->guarded);
}

// Parts round what they multiply relative to their own largest value, so not to the bit.
TEST(RescaledSums, SameResultsFromParts) {
  for (const char* seen : {"le", "ne"}) {  // key 0 at least; all but one
    const Function before = Parsed(Attention(seen));
    for (int64_t ctas : {2, 3, 4, 8}) {
      const Function after = InParts(before, ctas);
      for (int64_t l : {2, 16, 17, 40, 150, 300}) {
        const std::vector<double> a = Attended(before, 2, 1, 20, l),
                                  b = Attended(after, 2, 1, 20, l);
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); ++i) {
          ASSERT_TRUE(std::isfinite(b[i])) << seen << " " << ctas << " " << l << " " << i;
          ASSERT_NEAR(a[i], b[i], 0.03) << seen << " " << ctas << " " << l << " " << i;
        }
      }
    }
  }
}

// The largest value and the rows' sums are sent to all, 16 rows of 64 in the registers; of the tile
// each CTA has columns of its own, and nobody waits for those who read them.
TEST(RescaledSums, EachStoresColumnsOfItsOwn) {
  const Function after = InParts(Parsed(Attention()), 4);
  int all = 0, slices = 0;
  for (OpId id : OpsInOrder(after)) {
    if (after.ops[id].kind != OpKind::kClusterReduce) continue;
    all += after.ops[id].i("all", 0) == 1;
    slices += after.ops[id].i("slices", 0) == 4;
  }
  EXPECT_EQ(all, 2);
  EXPECT_EQ(slices, 1);
  const Function warps = InRoles(after);
  EXPECT_EQ(Said(warps), "");
  for (OpId id : OpsInOrder(warps)) {
    const Op& op = warps.ops[id];
    if (op.kind != OpKind::kWarpClusterReduce) continue;
    EXPECT_EQ(warps.type(op.operands[2]).depth, 1) << op.s("kind");
  }
}

// Each of these is a sum that is not what it was times the loop's own factor.
TEST(RescaledSums, NotWhere) {
  const std::string text = Attention();
  const auto with = [&](std::string_view from, std::string_view to) {
    return SumsOf(With(text, from, to));
  };
  // The factor of another base, of another multiple, the other way round.
  EXPECT_FALSE(with("%f = exp2 %da : f32[16]", "%f = exp %da : f32[16]"));
  EXPECT_FALSE(with("%mo = mul %m0, %c1 : f32[16]", "%mo = add %m0, %m0 : f32[16]"));
  EXPECT_FALSE(with("%da = sub %mo, %mc : f32[16]", "%da = sub %mc, %mo : f32[16]"));
  // A term that does not shrink as m grows, or that is a square of one that does.
  EXPECT_FALSE(with("%d = sub %x, %mct : f32[16, 16]", "%d = sub %x, %c2 : f32[16, 16]"));
  EXPECT_FALSE(with("%pb = cast %p : bf16[16, 16]",
                    "%pp = mul %p, %p : f32[16, 16]\n        %pb = cast %pp : bf16[16, 16]"));
  // Along the columns of a tile whose rows are meant.
  EXPECT_FALSE(with("%mc1 = reshape %mc : f32[16, 1]", "%mc1 = reshape %mc : f32[1, 16]"));
  // A sum that is looked at.
  EXPECT_FALSE(with("%l1 = add %lf, %ps : f32[16]",
                    "%l2 = add %lf, %ps : f32[16]\n        %l1 = max %l2, %l0 : f32[16]"));
}

}  // namespace
}  // namespace tilec::ir
