// The sequential lowering: scalar facts, placement of buffers, and what is emitted for the cases
// that take different paths. Whether the programs are *right* is decided where they run (kernel
// files on the emulator); here: which path was taken, and that the verifier accepts it.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/sequential.h"

#include <gtest/gtest.h>

#include "ir/lower/buffers.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/warp_check/check.h"
#include "tests/unit/lower/helper.h"
#include "tests/unit/lower/sequential_kernels.h"

namespace tilec::ir {

namespace {

TEST(Sequential, GemmByTmaAndTensorCore) {
  const Function fn = Lowered(Gemm(128, 128, 64, 16));
  EXPECT_EQ(fn.launch.warps, 8);
  EXPECT_EQ(Count(fn, OpKind::kTmaLoad), 2);
  EXPECT_EQ(Count(fn, OpKind::kMma), 1);
  EXPECT_EQ(Count(fn, OpKind::kConvert), 0);
  EXPECT_GT(Count(fn, OpKind::kTmaStore), 0);
  EXPECT_EQ(*Eval(fn.launch.grid, {{"M", 300}, {"N", 129}}), 6);
}

TEST(Roles, LoadsRunAheadThroughOneRing) {
  const Function fn = InRoles(Parsed(Gemm(128, 128, 64, 16)));
  EXPECT_EQ(Count(fn, OpKind::kRole), 2);
  EXPECT_EQ(fn.launch.warps, 12);                // two compute warpgroups, one for the load warp
  EXPECT_EQ(Count(fn, OpKind::kMbarAlloc), 2);   // A and B share one ring: full and empty
  EXPECT_EQ(Count(fn, OpKind::kMbarWait), 2);    // the producer's on empty, the consumers' on full
  EXPECT_EQ(Count(fn, OpKind::kMbarArrive), 2);  // of the turn before, and of the last behind it
  EXPECT_EQ(Count(fn, OpKind::kTmaLoad), 2);
  int64_t depth = 0, expected = 0;
  for (const Op& op : fn.ops) {
    if (op.kind == OpKind::kMbarAlloc) depth = fn.type(op.results[0]).depth;
    if (op.kind == OpKind::kMbarExpect) expected = op.i("bytes");
  }
  EXPECT_EQ(expected, 2 * 128 * 64 * 2);
  // As deep as shared memory allows: one slot more would not fit.
  EXPECT_GE(depth, 2);
  EXPECT_LE(fn.launch.smem_bytes, 232448);
  if (depth < 8) {
    EXPECT_GT(fn.launch.smem_bytes + 2 * 128 * 64 * 2, 232448);
  }
}

TEST(Roles, WhereNoEngineCopiesThreadsOfTheLoadRoleDo) {
  DiagSink diags;
  bool specialized = false;
  Result<Function> fn = Specialize(Parsed(Gemm(64, 64, 64, 2)), H200(), {}, &specialized, diags);
  ASSERT_TRUE(fn.ok());
  EXPECT_TRUE(specialized);
  EXPECT_EQ(Count(*fn, OpKind::kRole), 2);
  EXPECT_EQ(Count(*fn, OpKind::kTmaLoad), 0);
  for (const Op& op : fn->ops) {
    if (op.kind == OpKind::kRole) {
      EXPECT_GE(op.i("warps"), 4) << op.s("name");
    }
  }
}

TEST(Roles, TheProducerIsToldTheBoundThatATileGives) {
  // The trip count depends on a tile: the compute role hands the largest element over.
  std::string text = Gemm(64, 64, 64, 16);
  const size_t loop = text.find("%r = for %0, %K, %z");
  ASSERT_NE(loop, std::string::npos);
  text.insert(loop, R"(%t = load %A, %m, %0 {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
      %s = reduce %t {kind = "max", axis = 1} : bf16[64]
      %s1 = reduce %s {kind = "max", axis = 0} : bf16
      %n1 = cast %s1 : i64
      )");
  text.replace(text.find("for %0, %K, %z"), 14, "for %0, %n1, %z");
  DiagSink diags;
  bool specialized = true;
  Result<Function> fn = Specialize(Parsed(text), H200(), {}, &specialized, diags);
  ASSERT_TRUE(fn.ok());
  ASSERT_TRUE(specialized);
  int puts = 0, takes = 0;
  for (const Op& op : fn->ops) {
    const bool put = op.kind == OpKind::kSmemStore, take = op.kind == OpKind::kSmemLoad;
    if (!put && !take) continue;
    const Type& buffer = fn->type(op.operands[put ? 1 : 0]);
    if (buffer.shape != std::vector<int64_t>{1}) continue;
    puts += put;
    takes += take;
  }
  EXPECT_EQ(puts, 1);
  EXPECT_EQ(takes, 1);
  EXPECT_TRUE(CheckWarps(*fn, WarpCheckOptions(H200()), diags).ok());
}

TEST(Sequential, MisalignedTensorsAreLoadedByThreads) {
  const Function fn = Lowered(Gemm(64, 64, 64, 2));
  EXPECT_EQ(Count(fn, OpKind::kTmaLoad), 0);
  EXPECT_EQ(Count(fn, OpKind::kTmaStore), 0);
  EXPECT_EQ(Count(fn, OpKind::kGLoad), 2);
  EXPECT_EQ(Count(fn, OpKind::kSmemStore), 2);
  EXPECT_EQ(Count(fn, OpKind::kMma), 1);
}

TEST(Sequential, OddTilesPadWithZeros) {
  // K = 40 is no multiple of the 16 of an instruction: the buffer's last 8 columns must read 0, so
  // no box may write there.
  const Function fn = Lowered(Gemm(96, 80, 40, 16));
  EXPECT_EQ(Count(fn, OpKind::kTmaLoad), 0);
  EXPECT_EQ(Count(fn, OpKind::kSmemZero), 2);
  for (const Op& op : fn.ops) {
    if (op.kind != OpKind::kMma) continue;
    EXPECT_EQ(op.i("k"), 48);
  }
  // K = 48 is: boxes of 16 columns fill it exactly.
  EXPECT_EQ(Count(Lowered(Gemm(96, 80, 48, 16)), OpKind::kTmaLoad), 6);
}

TEST(Sequential, KMajorOnlyTypesAreTransposedOnTheWay) {
  const Function tn = Lowered(Gemm(64, 64, 64, 16, "e4m3"));
  EXPECT_EQ(Count(tn, OpKind::kTmaLoad), 2);
  const Function nn = Lowered(Gemm(64, 64, 64, 16, "e4m3", "f32", true));
  EXPECT_EQ(Count(nn, OpKind::kTmaLoad), 1);
  int transposed = 0;
  for (const Op& op : nn.ops)
    if (op.kind == OpKind::kSmemStore) transposed += op.i("transposed") == 1;
  EXPECT_EQ(transposed, 1);
}

TEST(Sequential, FullPrecisionProductsUseMultiplyAdds) {
  const Function fn = Lowered(Gemm(32, 32, 16, 16, "f32"));
  EXPECT_EQ(Count(fn, OpKind::kMma), 0);
  EXPECT_EQ(Count(fn, OpKind::kSimtDot), 1);
}

TEST(Sequential, TooMuchSharedMemoryIsSaid) {
  DiagSink diags;
  const Function tile = Parsed(Gemm(256, 256, 512, 16));
  EXPECT_FALSE(Sequentialize(tile, H200(), {}, diags).ok());
  ASSERT_EQ(diags.errors(), 1);
  EXPECT_STREQ(diags.all()[0].def->code, "I302");
}

TEST(Buffers, ShareBytesOnlyIfTheirLivesAreApart) {
  std::vector<BufferLife> b = {{0, 5, 3000, 0}, {2, 9, 1000, 0}, {6, 8, 2000, 0}, {-1, 99, 10, 0}};
  const int64_t used = PlaceBuffers(b);
  for (size_t i = 0; i < b.size(); ++i) {
    EXPECT_EQ(b[i].offset % 1024, 0);
    EXPECT_LE(b[i].offset + b[i].bytes, used);
    for (size_t j = 0; j < i; ++j) {
      const bool alive = b[i].begin <= b[j].end && b[j].begin <= b[i].end;
      const bool overlap =
          b[i].offset < b[j].offset + b[j].bytes && b[j].offset < b[i].offset + b[i].bytes;
      EXPECT_FALSE(alive && overlap) << i << " " << j;
    }
  }
  EXPECT_EQ(b[2].offset, b[0].offset);  // the third takes the first's place
}

TEST(Scalars, AlignmentFollowsArithmetic) {
  Function fn;
  fn.name = "f";
  Param tensor;
  tensor.name = "A";
  tensor.dims = {Expr::Name("M"), Expr::Name("N")};
  tensor.facts.last_dim_align = 8;
  fn.AddParam(tensor, Type::Tensor(DType::kF32, 2));
  Param dim;
  dim.kind = ParamKind::kDim;
  dim.name = "N";
  const ValueId n = fn.AddParam(dim, Type::Scalar(DType::kI64));
  dim.name = "M";
  const ValueId m = fn.AddParam(dim, Type::Scalar(DType::kI64));
  Builder b(fn, fn.body);
  EXPECT_EQ(AlignOf(fn, n), 8);
  EXPECT_EQ(AlignOf(fn, m), 1);
  EXPECT_EQ(AlignOf(fn, b.Int(48)), 16);
  EXPECT_EQ(AlignOf(fn, b.Binary(OpKind::kMul, b.Int(4), n)), 32);
  EXPECT_EQ(AlignOf(fn, b.Binary(OpKind::kMin, n, b.Int(64))), 8);
  EXPECT_EQ(AlignOf(fn, b.Binary(OpKind::kDiv, n, b.Int(2))), 4);
  EXPECT_EQ(AlignOf(fn, b.Binary(OpKind::kDiv, n, b.Int(3))), 1);
  EXPECT_EQ(ToText(*ToExpr(fn, b.Binary(OpKind::kAdd, m, b.Int(3)))), "(M + 3)");
}

TEST(Operands, SwizzleFollowsTheContractedDim) {
  BufferNeed k_major;
  k_major.tile_rows = k_major.rows = 64;
  k_major.tile_cols = k_major.cols = 64;
  k_major.cols_contracted = true;
  EXPECT_EQ(k_major.Layout(DType::kBF16), (SmemLayout{64, 64, 64, 128}));
  k_major.tile_cols = k_major.cols = 48;
  EXPECT_EQ(k_major.Layout(DType::kBF16), (SmemLayout{64, 48, 16, 32}));
  BufferNeed mn_major;  // 80 columns of N, 40 rows of K: whole 128-byte panels, K padded to 48
  mn_major.tile_rows = 40;
  mn_major.rows = 48;
  mn_major.tile_cols = mn_major.cols = 80;
  mn_major.rows_contracted = true;
  EXPECT_EQ(mn_major.Layout(DType::kBF16), (SmemLayout{48, 128, 64, 128}));
  EXPECT_TRUE(mn_major.NeedsZero(DType::kBF16));
}

}  // namespace

}  // namespace tilec::ir
