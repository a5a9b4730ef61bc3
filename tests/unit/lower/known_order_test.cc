// What loops, branches and smallest values say of positions, and which masks go by it.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/known_order.h"

#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// The sum %sN of a tile's columns from `at` on that are there.
std::string MaskedSum(const std::string& n, const std::string& at, const std::string& tile) {
  const std::string text = R"(        %cN = iota AT : i32[128]
        %cbN = broadcast %cN {axes = [1]} : i32[64, 128]
        %seenN = cmp %cbN, %ends {pred = "lt"} : bool[64, 128]
        %yN = select %seenN, TILE, %minus : f32[64, 128]
        %sN = reduce %yN {kind = "sum", axis = 1} : f32[64]
)";
  return With(With(With(text, "N", n), "AT", at), "TILE", tile);
}

// A row's part of L columns, in tiles of 128: the first one masked in front of a loop, the others a
// turn late, the last one behind it; or, where there is one, in a loop of its own. `part` bounds
// it.
std::string Part() {
  return R"(func @part tile {
  param tensor %X: tensor<f32, 2> in [M, L] align=16 stride_align=16 contiguous=1 last_align=1
  param tensor %O: tensor<f32, 1> out [M] align=16 stride_align=16 contiguous=1 last_align=1
  param dim %M: i64
  param dim %L: i64
  param scalar %part: i64
  body {
    %0 = constant {value = 0} : i64
    %1 = constant {value = 1} : i64
    %128 = constant {value = 128} : i64
    %256 = constant {value = 256} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %hi = min %L, %part : i64
      %two = cmp %128, %hi {pred = "lt"} : bool
      %end32 = cast %L : i32
      %ends = broadcast %end32 {axes = []} : i32[64, 128]
      %minus = constant {value = -7} : f32[64, 128]
      %none = constant {value = 0} : f32[64]
      %sum = if %two : f32[64] do {
        %x = load %X, %m, %0 {modes = "rr", sizes = [64, 128]} : f32[64, 128]
)" + MaskedSum("0", "%0", "%x") +
         R"(        %late = load %X, %m, %128 {modes = "rr", sizes = [64, 128]} : f32[64, 128]
        %all, %left = for %256, %hi, %s0, %late {step = 128} : f32[64], f32[64, 128]
            do (%k: i64, %t: f32[64], %u: f32[64, 128]) {
          %next = load %X, %m, %k {modes = "rr", sizes = [64, 128]} : f32[64, 128]
          %before = sub %k, %128 : i64
)" + MaskedSum("1", "%before", "%u") +
         R"(          %t1 = add %t, %s1 : f32[64]
          yield %t1, %next
        }
        %less = sub %hi, %1 : i64
        %turns = div %less, %128 : i64
        %last = mul %turns, %128 : i64
)" + MaskedSum("2", "%last", "%left") +
         R"(        %t2 = add %all, %s2 : f32[64]
        yield %t2
      } do {
        %one = for %0, %hi, %none {step = 128} : f32[64] do (%ek: i64, %et: f32[64]) {
          %ex = load %X, %m, %ek {modes = "rr", sizes = [64, 128]} : f32[64, 128]
)" + MaskedSum("3", "%ek", "%ex") +
         R"(          %et1 = add %et, %s3 : f32[64]
          yield %et1
        }
        yield %one
      }
      store %O, %sum, %m, %M {modes = "r", sizes = [64]}
      yield
    }
  }
}
)";
}

std::vector<double> Run(const Function& fn, int64_t l, int64_t part) {
  InterpretInputs in;
  in.tensors["X"] = TensorValue::Random(DType::kF32, {100, l}, 1);
  in.tensors["O"] = TensorValue::Zeros(DType::kF32, {100});
  in.dims = {{"M", 100}, {"L", l}, {"part", part}};
  return Interpreted(fn, std::move(in), "O");
}

void ExpectSame(const Function& a, const Function& b) {
  for (int64_t l : {1, 127, 128, 129, 256, 257, 500, 700})
    for (int64_t part : {0, 100, 128, 130, 256, 384, 1000})
      EXPECT_EQ(Run(a, l, part), Run(b, l, part)) << l << " " << part;
}

TEST(KnownOrder, MasksThatDoNothingAreTakenOut) {
  const Function before = Parsed(Part());
  EXPECT_EQ(Count(before, OpKind::kSelect), 4);
  const Function after = Changed(GuardMasks, before, 2);
  // Behind the loop, and in the loop of one turn, which has no second version.
  EXPECT_EQ(Count(after, OpKind::kSelect), 2);
  EXPECT_EQ(Count(after, OpKind::kIf), 1);
  ExpectSame(before, after);
}

// Without the bound L each of them may see columns beyond it.
TEST(KnownOrder, MasksThatMayDoSomethingStay) {
  const Function before = Parsed(With(Part(), "%hi = min %L, %part", "%hi = max %L, %part"));
  const Function after = Changed(GuardMasks, before, 1);  // two versions of the loop's turn
  EXPECT_EQ(Count(after, OpKind::kSelect), 4);
  EXPECT_EQ(Count(after, OpKind::kIf), 2);
  ExpectSame(before, after);
}

// One column less than the first tile has is known to be there.
TEST(KnownOrder, ABoundThatIsOneShortSaysNothing) {
  const Function before = Parsed(With(Part(), "%two = cmp %128, %hi {pred = \"lt\"}",
                                      "%some = constant {value = 126} : i64\n"
                                      "      %two = cmp %some, %hi {pred = \"lt\"}"));
  const Function after = Changed(GuardMasks, before, 1);
  EXPECT_EQ(Count(after, OpKind::kSelect), 3);
  ExpectSame(before, after);
}

// Sums of 64 bits that are loaded, or a caller's, may wrap: `x + 2^40 > x` says nothing. (A dim's
// does not, and what is at most a dim lies below it.)
TEST(KnownOrder, SumsThatMayWrapSayNothing) {
  constexpr const char* kWraps = R"(func @wraps tile {
  param tensor %X: tensor<i64, 1> in [N] align=16 stride_align=16 contiguous=1 last_align=1
  param tensor %A: tensor<f32, 2> in [64, 128] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %O: tensor<f32, 3> out [N, 64, 128] align=16 stride_align=16 contiguous=1
  param dim %N: i64
  param scalar %s: i64
  body {
    %0 = constant {value = 0} : i64
    %64 = constant {value = 64} : i64
    %128 = constant {value = 128} : i64
    parallel %0, %N {steps = [1]} do (%n: i64) {
      %x = load %X, %n {modes = "s", sizes = [1]} : i64
      %low = min %x, %N : i64
      %more = constant {value = 1099511627776} : i64
      %sum = add %x, %more : i64
      %less = cmp %x, %sum {pred = "lt"} : bool
      %sees = broadcast %less {axes = []} : bool[64, 128]
      %a = load %A, %0, %0 {modes = "rr", sizes = [64, 128]} : f32[64, 128]
      %none = constant {value = -7} : f32[64, 128]
      %y = select %sees, %a, %none : f32[64, 128]
      store %O, %y, %n, %0, %64, %0, %128 {modes = "srr", sizes = [1, 64, 128]}
      yield
    }
  }
}
)";
  const Function before = Parsed(kWraps);
  Changed(GuardMasks, before, 0);
  Changed(GuardMasks, Parsed(With(kWraps, "add %x, %more", "add %s, %more")), 0);
  Changed(
      GuardMasks,
      Parsed(With(With(kWraps, "add %x, %more", "add %n, %more"), "cmp %x, %sum", "cmp %n, %sum")),
      1);
  Changed(GuardMasks,
          Parsed(With(With(kWraps, "add %x, %more", "add %low, %more"), "cmp %x, %sum",
                      "cmp %low, %sum")),
          1);
  Changed(GuardMasks,
          Parsed(With(With(kWraps, "add %x, %more", "sub %low, %more"), "cmp %x, %sum",
                      "cmp %sum, %low")),
          0);
}

TEST(KnownOrder, LoopsWithoutASecondTurn) {
  const Function fn = Parsed(Part());
  KnownOrder order(fn);
  std::vector<bool> once;
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kFor) once.push_back(order.TurnsOnce(id));
  EXPECT_EQ(once, (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace tilec::ir
