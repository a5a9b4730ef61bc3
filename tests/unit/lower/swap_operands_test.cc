// swap-operands: what threads compute for a product becomes its left operand, every value stays,
// and products whose results meet something else than elementwise work are left alone. And the
// ranges of integers that say which conversions lose nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/integer_range.h"
#include "ir/lower/operands.h"
#include "ir/lower/plan.h"
#include "ir/lower/widest_product.h"
#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// C = (A · Wᵀ) · scale, W in bytes.
constexpr const char* kWeights = R"(func @weights tile {
  param tensor %A: tensor<bf16, 2> in [M, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %W: tensor<i8, 2> in [N, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %scale: tensor<f32, 1> in [N] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %R: tensor<f32, 2> in [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %C: tensor<f32, 2> out [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  param dim %K: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M, %0, %N {steps = [32, 64]} do (%m: i64, %n: i64) {
      %z = constant {value = 1.5} : f32[32, 64]
      %c = for %0, %K, %z {step = 32} : f32[32, 64] do (%k: i64, %s: f32[32, 64]) {
        %a = load %A, %m, %k {modes = "rr", sizes = [32, 32]} : bf16[32, 32]
        %b = load %W, %n, %k {modes = "rr", sizes = [64, 32]} : i8[64, 32]
        %w = cast %b : bf16[64, 32]
        %wt = transpose %w {perm = [1, 0]} : bf16[32, 64]
        %d = dot %a, %wt, %s : f32[32, 64]
        yield %d
      }
      %v = load %scale, %n {modes = "r", sizes = [64]} : f32[64]
      %vb = broadcast %v {axes = [1]} : f32[32, 64]
      %y = mul %c, %vb : f32[32, 64]
      %h = constant {value = 32} : i64
      %me0 = add %m, %h : i64
      %me = min %me0, %M : i64
      %g = constant {value = 64} : i64
      %ne0 = add %n, %g : i64
      %ne = min %ne0, %N : i64
      store %C, %y, %m, %me, %n, %ne {modes = "rr", sizes = [32, 64]}
      yield
    }
  }
}
)";

Function Swapped(const Function& before, int changes) {
  Function after = before;
  DiagSink diags;
  PassContext cx{diags, H200(), 0};
  EXPECT_TRUE(SwapOperands(after, cx).ok());
  EXPECT_EQ(cx.changes, changes);
  EXPECT_TRUE(FoldTranspose(after, cx).ok());
  EXPECT_TRUE(Dce(after, cx).ok());
  ExpectVerified(after);
  return after;
}

std::vector<double> ResultOf(const Function& fn) {
  InterpretInputs in;
  in.tensors["A"] = TensorValue::Random(DType::kBF16, {70, 96}, 1);
  in.tensors["W"] = TensorValue::Random(DType::kI8, {100, 96}, 2);
  in.tensors["scale"] = TensorValue::Random(DType::kF32, {100}, 3);
  in.tensors["R"] = TensorValue::Random(DType::kF32, {70, 100}, 4);
  in.tensors["C"] = TensorValue::Zeros(DType::kF32, {70, 100});
  in.dims = {{"M", 70}, {"N", 100}, {"K", 96}};
  return Interpreted(fn, std::move(in), "C");
}

TEST(SwapOperands, WeightsBecomeTheLeftOperand) {
  const Function before = Parsed(kWeights);
  const Function after = Swapped(before, 1);
  EXPECT_EQ(ResultOf(before), ResultOf(after));
  for (const Op& op : after.ops)
    if (op.kind == OpKind::kDot) {
      EXPECT_EQ(after.type(op.results[0]).shape, (std::vector<int64_t>{64, 32}));
      EXPECT_EQ(after.def(op.operands[0])->kind, OpKind::kCast);
    }
  // The result is transposed once, for the store.
  int transposes = 0;
  for (OpId id : OpsInOrder(after)) {
    const Op& op = after.ops[id];
    EXPECT_EQ(op.kind == OpKind::kStore, StoresTransposed(after, op, H200()));
    transposes += op.kind == OpKind::kTranspose && after.type(op.results[0]).shape[1] == 64;
  }
  EXPECT_EQ(transposes, 1);
}

TEST(SwapOperands, TheyComeFromRegisters) {
  const Function after = Swapped(Parsed(kWeights), 1);
  const LayoutPlan plan = MakePlan(after, H200(), 0, true);
  ASSERT_EQ(plan.dots.size(), 1u);
  const DotPlan& dot = plan.dots.begin()->second;
  EXPECT_EQ(dot.a.how, OperandPlan::How::kRegister);
  EXPECT_EQ(dot.b.how, OperandPlan::How::kBuffer);
  for (const auto& [id, store] : plan.stores) EXPECT_TRUE(store.tma && store.transposed);
}

TEST(SwapOperands, OthersStay) {
  const auto stays = [](const std::string& text, const char* why) {
    const Function before = Parsed(text);
    Function after = before;
    DiagSink diags;
    PassContext cx{diags, H200(), 0};
    EXPECT_TRUE(SwapOperands(after, cx).ok());
    EXPECT_EQ(cx.changes, 0) << why;
    EXPECT_EQ(Print(after), Print(before)) << why;
  };
  stays(With(With(kWeights, "%b = load %W, %n, %k {modes = \"rr\", sizes = [64, 32]} : i8[64, 32]",
                  ""),
             "%w = cast %b : bf16[64, 32]",
             "%w = load %A, %n, %k {modes = \"rr\", sizes = [64, 32]} : bf16[64, 32]"),
        "both operands are loaded");
  stays(With(kWeights, "%a = load %A, %m, %k {modes = \"rr\", sizes = [32, 32]} : bf16[32, 32]",
             "%a0 = load %A, %m, %k {modes = \"rr\", sizes = [32, 32]} : bf16[32, 32]\n"
             "%a = neg %a0 : bf16[32, 32]"),
        "both operands are computed");
  stays(With(kWeights, "%y = mul %c, %vb : f32[32, 64]",
             "%r = load %R, %m, %n {modes = \"rr\", sizes = [32, 64]} : f32[32, 64]\n"
             "%y = mul %c, %r : f32[32, 64]"),
        "the result meets a tile");
  stays(With(kWeights, "%y = mul %c, %vb : f32[32, 64]",
             "%x = reduce %c {kind = \"max\", axis = 1} : f32[32]\n"
             "%xb = broadcast %x {axes = [0]} : f32[32, 64]\n"
             "%y = mul %c, %xb : f32[32, 64]"),
        "the result is reduced");
}

// 200 rows of a tile are four blocks of 64; as columns they are 200.
constexpr const char* kFewRows = R"(func @few tile {
  param tensor %A: tensor<bf16, 2> in [M, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %B: tensor<bf16, 2> in [N, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %C: tensor<bf16, 2> out [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  param dim %K: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M, %0, %N {steps = [200, 128]} do (%m: i64, %n: i64) {
      %z = constant {value = 0.0} : f32[200, 128]
      %c = for %0, %K, %z {step = 32} : f32[200, 128] do (%k: i64, %s: f32[200, 128]) {
        %a = load %A, %m, %k {modes = "rr", sizes = [200, 32]} : bf16[200, 32]
        %b = load %B, %n, %k {modes = "rr", sizes = [128, 32]} : bf16[128, 32]
        %bt = transpose %b {perm = [1, 0]} : bf16[32, 128]
        %d = dot %a, %bt, %s : f32[200, 128]
        yield %d
      }
      %y = cast %c : bf16[200, 128]
      %h = constant {value = 200} : i64
      %me0 = add %m, %h : i64
      %me = min %me0, %M : i64
      %g = constant {value = 128} : i64
      %ne0 = add %n, %g : i64
      %ne = min %ne0, %N : i64
      store %C, %y, %m, %me, %n, %ne {modes = "rr", sizes = [200, 128]}
      yield
    }
  }
}
)";

TEST(SwapOperands, RowsThatFillNoBlockBecomeColumns) {
  const Function before = Parsed(kFewRows);
  const Function after = Swapped(before, 1);
  const auto result = [](const Function& fn) {
    InterpretInputs in;
    in.tensors["A"] = TensorValue::Random(DType::kBF16, {210, 64}, 1);
    in.tensors["B"] = TensorValue::Random(DType::kBF16, {136, 64}, 2);
    in.tensors["C"] = TensorValue::Zeros(DType::kBF16, {210, 136});
    in.dims = {{"M", 210}, {"N", 136}, {"K", 64}};
    return Interpreted(fn, std::move(in), "C");
  };
  EXPECT_EQ(result(before), result(after));
  for (const Op& op : after.ops)
    if (op.kind == OpKind::kDot) {
      EXPECT_EQ(after.type(op.results[0]).shape, (std::vector<int64_t>{128, 200}));
    }
  for (const auto& [id, dot] : MakePlan(after, H200(), 0, true).dots) {
    EXPECT_EQ(dot.a.how, OperandPlan::How::kBuffer);  // as they were loaded
    EXPECT_EQ(dot.b.how, OperandPlan::How::kBuffer);
  }
  // Whole blocks, nearly whole ones, one block, and columns that are no blocks stay.
  for (const char* rows : {"192", "248", "40"}) Swapped(Parsed(With(kFewRows, "200", rows)), 0);
  Swapped(Parsed(With(kFewRows, "128", "96")), 0);
}

// Three warpgroups have 128 registers a thread at launch: instructions of 200 columns at most.
TEST(SwapOperands, InstructionsTooWideForThreeWarpgroupsAreTurned) {
  const auto tile = [](const std::string& rows, const std::string& columns) {
    return Parsed(With(With(kFewRows, "128", columns), "200", rows));
  };
  const Function wide = tile("192", "256");
  EXPECT_TRUE(WantsTooWideInstruction(wide, H200()));
  const Function turned = Swapped(wide, 1);
  EXPECT_FALSE(WantsTooWideInstruction(turned, H200()));
  for (const Op& op : turned.ops)
    if (op.kind == OpKind::kDot) {
      EXPECT_EQ(turned.type(op.results[0]).shape, (std::vector<int64_t>{256, 192}));
    }
  for (const char* columns : {"192", "208"}) {  // 208 are no blocks of rows: they stay, too wide
    const Function stays = Swapped(tile("192", columns), 0);
    EXPECT_EQ(WantsTooWideInstruction(stays, H200()), columns == std::string("208"));
  }
  EXPECT_FALSE(WantsTooWideInstruction(tile("256", "208"), H200()));  // of two warpgroups
}

// Who asks for rows alone is told what the plan makes of them, where columns leave it the choice.
TEST(SwapOperands, BlocksOfRowsDivideAsThePlanHasThem) {
  for (const char* rows : {"64", "128", "192", "200", "256", "320", "384"}) {
    const Function fn = Parsed(With(With(kFewRows, "128", "64"), "200", rows));
    EXPECT_EQ(MakePlan(fn, H200(), 0, true).warpgroups, WarpgroupsOfRows(std::stoll(rows), H200()))
        << rows;
  }
  EXPECT_EQ(WarpgroupsOfRows(129, H200()), 3);
  EXPECT_TRUE(TooWideInRows(576, 256, DType::kF32, H200()));
  EXPECT_FALSE(TooWideInRows(384, 256, DType::kF32, H200()));
}

// Rows that lie along the contracted dim: as a left operand a copy brings 64 of them.
TEST(SwapOperands, FewRowsAlongTheContractedDimBecomeColumns) {
  const auto along = [](const std::string& rows) {
    return With(With(With(kFewRows, "200", rows), "[M, K]", "[K, M]"),
                "%a = load %A, %m, %k {modes = \"rr\", sizes = [" + rows + ", 32]} : bf16[" + rows +
                    ", 32]",
                "%at = load %A, %k, %m {modes = \"rr\", sizes = [32, " + rows + "]} : bf16[32, " +
                    rows + "]\n        %a = transpose %at {perm = [1, 0]} : bf16[" + rows +
                    ", 32]");
  };
  const std::string turned = along("16");
  const Function before = Parsed(turned), after = Swapped(before, 1);
  const auto result = [](const Function& fn) {
    InterpretInputs in;
    in.tensors["A"] = TensorValue::Random(DType::kBF16, {64, 24}, 1);
    in.tensors["B"] = TensorValue::Random(DType::kBF16, {136, 64}, 2);
    in.tensors["C"] = TensorValue::Zeros(DType::kBF16, {24, 136});
    in.dims = {{"M", 24}, {"N", 136}, {"K", 64}};
    return Interpreted(fn, std::move(in), "C");
  };
  EXPECT_EQ(result(before), result(after));
  for (const Op& op : after.ops)
    if (op.kind == OpKind::kDot) {
      EXPECT_EQ(after.type(op.results[0]).shape, (std::vector<int64_t>{128, 16}));
    }
  // A block of rows, rows along their own dim, columns that are no blocks.
  Swapped(Parsed(along("64")), 0);
  Swapped(Parsed(With(kFewRows, "200", "16")), 0);
  Swapped(Parsed(With(turned, "128", "96")), 0);
}

TEST(IntegerRange, FollowsWhatBitsSay) {
  const Function fn = Parsed(R"(func @bits tile {
  param tensor %W: tensor<u8, 1> in [N] align=16 stride_align=16 contiguous=1
  param tensor %Y: tensor<i32, 1> out [N] align=16 stride_align=16 contiguous=1
  param dim %N: i64
  body {
    %0 = constant {value = 0} : i64
    %w = load %W, %0 {modes = "r", sizes = [64]} : u8[64]
    %m = constant {value = 15} : u8[64]
    %low = and %w, %m : u8[64]
    %four = constant {value = 4} : u8[64]
    %high = shr %w, %four : u8[64]
    %word = cast %low : i32[64]
    %eight = constant {value = 8} : i32[64]
    %signed = sub %word, %eight : i32[64]
    %square = mul %signed, %signed : i32[64]
    %wraps = mul %high, %w : u8[64]
    %n = constant {value = 64} : i64
    %much = mul %N, %N : i64
    %huge = mul %much, %much : i64
    store %Y, %square, %0, %n {modes = "r", sizes = [64]}
  }
}
)");
  const auto range = [&](const std::string& name) {
    for (int32_t i = 0; i < fn.values.size(); ++i)
      if (fn.values[ValueId(i)].name == name) {
        const std::optional<IntegerRange> r = RangeOf(fn, ValueId(i));
        return r ? std::pair(r->least, r->most) : std::pair(int64_t{1}, int64_t{0});
      }
    ADD_FAILURE() << name;
    return std::pair(int64_t{1}, int64_t{0});
  };
  using P = std::pair<int64_t, int64_t>;
  EXPECT_EQ(range("w"), P(0, 255));
  EXPECT_EQ(range("low"), P(0, 15));
  EXPECT_EQ(range("high"), P(0, 15));
  EXPECT_EQ(range("signed"), P(-8, 7));
  EXPECT_EQ(range("square"), P(-56, 64));  // of two numbers that are not known to be equal
  EXPECT_EQ(range("wraps"), P(0, 255));
  EXPECT_EQ(range("n"), P(64, 64));
  EXPECT_EQ(range("N"), P(0, (int64_t{1} << 31) - 1));  // a dim: what the launcher lets in
  EXPECT_EQ(range("huge"), P(1, 0));                    // does not fit: nothing is known
}

}  // namespace
}  // namespace tilec::ir
