// slice-rows and guard-masks: other forms of the same program, bit for bit.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/passes/passes.h"
#include "ir/slice_rows.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Rows that see columns up to their own position, of a sum over blocks of columns; the rows also
// give a column vector and are stored.
constexpr const char* kMasked = R"(func @masked tile {
  param tensor %A: tensor<bf16, 2> in [M, 32] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %B: tensor<bf16, 2> in [L, 32] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 1> out [M] align=16 stride_align=16 contiguous=1 last_align=1
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M {steps = [128]} do (%m: i64) {
      %a = load %A, %m, %0 {modes = "rr", sizes = [128, 32]} : bf16[128, 32]
      %rows = iota %m : i32[128]
      %r0 = constant {value = 0} : f32[128]
      %sum = for %0, %L, %r0 {step = 32} : f32[128] do (%k: i64, %s: f32[128]) {
        %b = load %B, %k, %0 {modes = "rr", sizes = [32, 32]} : bf16[32, 32]
        %bt = transpose %b {perm = [1, 0]} : bf16[32, 32]
        %z = constant {value = 0} : f32[128, 32]
        %x = dot %a, %bt, %z : f32[128, 32]
        %cols = iota %k : i32[32]
        %cb = broadcast %cols {axes = [1]} : i32[128, 32]
        %rb = broadcast %rows {axes = [0]} : i32[128, 32]
        %seen = cmp %cb, %rb {pred = "le"} : bool[128, 32]
        %minus = constant {value = -7} : f32[128, 32]
        %y = select %seen, %x, %minus : f32[128, 32]
        %part = reduce %y {kind = "sum", axis = 1} : f32[128]
        %n = add %s, %part : f32[128]
        yield %n
      }
      %w = constant {value = 128} : i64
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      store %O, %sum, %m, %end {modes = "r", sizes = [128]}
      yield
    }
  }
}
)";

std::vector<double> Run(const Function& fn, int64_t m, int64_t l) {
  InterpretInputs in;
  in.tensors["A"] = TensorValue::Random(DType::kBF16, {m, 32}, 1);
  in.tensors["B"] = TensorValue::Random(DType::kBF16, {l, 32}, 2);
  in.tensors["O"] = TensorValue::Zeros(DType::kF32, {m});
  in.dims = {{"M", m}, {"L", l}};
  return Interpreted(fn, std::move(in), "O");
}

void ExpectSame(const Function& a, const Function& b) {
  for (int64_t m : {1, 100, 128, 300})
    for (int64_t l : {0, 1, 31, 64, 200, 400})
      EXPECT_EQ(Run(a, m, l), Run(b, m, l)) << m << " " << l;
}

TEST(SliceRows, KeepsEveryElement) {
  const Function before = Parsed(kMasked);
  EXPECT_EQ(RowClasses(before).Choices(), (std::vector<int>{1, 2}));
  Function after = before;
  SliceRows(after, 2);
  ExpectVerified(after);
  EXPECT_EQ(Count(after, OpKind::kDot), 2);
  EXPECT_EQ(Count(after, OpKind::kLoad), 3);  // two of A, one of B for both
  EXPECT_EQ(Count(after, OpKind::kStore), 2);
  ExpectSame(before, after);
}

TEST(SliceRows, NothingIsCutWhereSomethingRunsAlongTheRows) {
  const std::string text = With(kMasked, "%n = add %s, %part : f32[128]",
                                "%run = scan %part {kind = \"sum\", axis = 0} : f32[128]\n"
                                "        %n = add %s, %run : f32[128]");
  EXPECT_EQ(RowClasses(Parsed(text)).Choices(), std::vector<int>{1});
}

TEST(GuardMasks, TwoVersionsOfATurnAreTheSameProgram) {
  const Function before = Parsed(kMasked);
  const Function after = Changed(GuardMasks, before, 1);
  EXPECT_EQ(Count(after, OpKind::kIf), 1);
  EXPECT_EQ(Count(after, OpKind::kSelect), 1);  // in one of the versions
  EXPECT_EQ(Count(after, OpKind::kDot), 2);
  ExpectSame(before, after);
}

TEST(GuardMasks, MasksThatNoTurnCouldDoWithoutStay) {
  // Columns against themselves, never all below.
  const std::string text =
      With(kMasked, "broadcast %rows {axes = [0]}", "broadcast %early {axes = [0]}");
  Changed(GuardMasks, Parsed(With(text, "%cb = ", "%early = iota %k : i32[128]\n        %cb = ")),
          0);
}

// `k is 0 or …`: a scalar decides it for all elements, without their positions.
TEST(GuardMasks, AScalarOfAMaskIsItsOwnAnswer) {
  const Function before =
      Parsed(With(kMasked, "%minus = ",
                  "%first = cmp %k, %0 {pred = \"eq\"} : bool\n"
                  "        %firsts = broadcast %first {axes = []} : bool[128, 32]\n"
                  "        %or = or %firsts, %seen : bool[128, 32]\n        %minus = "));
  const std::string text = With(Print(before), "select %seen", "select %or");
  const Function masked = Parsed(text);
  const Function after = Changed(GuardMasks, masked, 1);
  EXPECT_EQ(Count(after, OpKind::kIf), 1);
  EXPECT_EQ(Count(after, OpKind::kSelect), 1);
  ExpectSame(masked, after);
}

// Positions near the end of 32 bits wrap; the version without masks must not run then.
TEST(GuardMasks, PositionsThatWrapAreMasked) {
  const Function before = Parsed(With(kMasked, "%rows = iota %m : i32[128]",
                                      "%far = constant {value = 2147483600} : i64\n"
                                      "      %start = add %m, %far : i64\n"
                                      "      %rows = iota %start : i32[128]"));
  ExpectSame(before, Changed(GuardMasks, before, 1));
}

}  // namespace
}  // namespace tilec::ir
