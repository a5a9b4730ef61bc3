// whole-stores: tiles that end at a number are stored by the copy engine where they are whole, and
// every element is what it was, wherever the end lies.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/passes.h"

#include "ir/lower/stored_over.h"
#include "tests/unit/lower/product.h"

namespace tilec::ir {
namespace {

// The product of which tiles end at a number that a caller gives.
std::string Text() {
  return With(With(ProductText("%K"), "  param dim %M", "  param scalar %e: i64\n  param dim %M"),
              "%mend = min %me, %M", "%mend = min %me, %e");
}

std::vector<double> Rows(const Function& fn, int64_t m, int64_t end) {
  InterpretInputs in;
  in.tensors["A"] = Numbers(DType::kBF16, {m, 64}, 1);
  in.tensors["B"] = Numbers(DType::kBF16, {40, 64}, 4);
  in.tensors["C"] = Numbers(DType::kF32, {m, 40}, 2);
  in.dims = {{"M", m}, {"N", 40}, {"K", 64}, {"e", end}};
  return Interpreted(fn, std::move(in), "C");
}

TEST(WholeStores, WholeTilesLeaveByTheEngine) {
  const Function before = Parsed(Text()), after = Changed(WholeStores, before, 1);
  EXPECT_EQ(Count(after, OpKind::kStore), 2);
  for (const auto& [m, end] :
       {std::pair{128, 128}, {128, 100}, {128, 64}, {128, 0}, {128, -5}, {100, 100}, {100, 200}})
    EXPECT_EQ(Rows(before, m, end), Rows(after, m, end)) << m << " " << end;
  const Function warps = InRoles(after);
  EXPECT_EQ(Said(warps), "");
  EXPECT_GT(Count(warps, OpKind::kTmaStore), 0);
  EXPECT_GT(Count(warps, OpKind::kGStore), 0);
  EXPECT_EQ(Count(InRoles(before), OpKind::kTmaStore), 0);
}

// One of the two is made, so neither writes over the other.
TEST(WholeStores, ArmsStoreInEachOthersPlace) {
  const Function after = Changed(WholeStores, Parsed(Text()), 1);
  EXPECT_TRUE(StoredOver(after).empty());
}

TEST(WholeStores, NotWhereTheTensorEndsTheTile) {
  Changed(WholeStores, Product("%K"), 0);  // the engine stores it anyway
}

TEST(WholeStores, NotWhatTheEngineCannotStore) {
  Changed(WholeStores, Parsed(With(Text(), "out [M, N] align=16", "out [M, N] align=4")), 0);
  Changed(WholeStores, Parsed(With(Text(), "out [M, N]", "inout [M, N]")), 0);
}

// Nothing was multiplied: threads hold such tiles as memory wants them.
TEST(WholeStores, NotWithoutProducts) {
  const std::string sum = "%d = add %s, %s : f32[64, 32]";
  Changed(WholeStores, Parsed(With(Text(), "%d = dot %a, %bt, %s : f32[64, 32]", sum)), 0);
}

}  // namespace
}  // namespace tilec::ir
