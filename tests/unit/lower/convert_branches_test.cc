// ConvertBranches: what becomes a select, what stays a branch, and that values stay the same.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/convert_branches.h"

#include <gtest/gtest.h>

#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// In the loop: a choice of scalars, one of rows with a nested one, one that loads a number, one of
// tiles, one that writes. Outside of it: a choice of scalars.
constexpr const char* kText = R"(func @choices tile {
  param tensor %A: tensor<f32, 2> in [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %S: tensor<i32, 1> in [L] align=16 stride_align=16 contiguous=1 last_align=1
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %T: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    %1 = constant {value = 1} : i64
    %w = constant {value = 64} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %a = load %A, %m, %0 {modes = "rr", sizes = [64, 64]} : f32[64, 64]
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      %z = constant {value = 0} : f32[64, 64]
      %r0 = constant {value = 1} : f32[64]
      %first = cmp %m, %0 {pred = "eq"} : bool
      %from = if %first : i64 do {
        yield %0
      } do {
        yield %1
      }
      %acc, %row = for %from, %L, %z, %r0 {step = 1} : f32[64, 64], f32[64]
          do (%k: i64, %s: f32[64, 64], %r: f32[64]) {
        %two = constant {value = 2} : i64
        %rest = mod %k, %two : i64
        %even = cmp %rest, %0 {pred = "eq"} : bool
        %f = if %even : f32 do {
          %x = constant {value = 0.5} : f32
          yield %x
        } do {
          %y = constant {value = 1.5} : f32
          yield %y
        }
        %early = cmp %k, %two {pred = "lt"} : bool
        %c = if %early : i32 do {
          %n = load %S, %k {modes = "s", sizes = [1]} : i32
          yield %n
        } do {
          %i = cast %k : i32
          yield %i
        }
        %rows = if %even : f32[64] do {
          %g = if %early : f32[64] do {
            %fb = broadcast %f {axes = []} : f32[64]
            %t = mul %r, %fb : f32[64]
            yield %t
          } do {
            yield %r
          }
          yield %g
        } do {
          yield %r0
        }
        %tiles = if %even : f32[64, 64] do {
          %u = add %s, %a : f32[64, 64]
          yield %u
        } do {
          yield %s
        }
        if %early do {
          store %T, %tiles, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
          yield
        } do {
          yield
        }
        %cf = cast %c : f32
        %cb = broadcast %cf {axes = []} : f32[64]
        %next = add %rows, %cb : f32[64]
        yield %tiles, %next
      }
      %rb = broadcast %row {axes = [0]} : f32[64, 64]
      %out = add %acc, %rb : f32[64, 64]
      store %O, %out, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)";

int Ops(const Function& fn, OpKind kind) {
  int n = 0;
  for (OpId id : OpsInOrder(fn)) n += fn.ops[id].kind == kind;
  return n;
}

std::vector<double> Values(const Function& fn, int64_t l, const char* out) {
  InterpretInputs in;
  in.tensors["A"] = TensorValue::Random(DType::kF32, {100, 64}, 1);
  in.tensors["S"] = TensorValue::Random(DType::kI32, {l}, 2);
  in.tensors["O"] = TensorValue::Zeros(DType::kF32, {100, 64});
  in.tensors["T"] = TensorValue::Zeros(DType::kF32, {100, 64});
  in.dims = {{"M", 100}, {"L", l}};
  return Interpreted(fn, std::move(in), out);
}

TEST(ConvertBranches, ScalarsAndLittleElse) {
  const Function before = Parsed(kText);
  ASSERT_EQ(Ops(before, OpKind::kIf), 7);
  Function after = before;
  EXPECT_EQ(ConvertBranches(after), 4);
  ExpectVerified(after);
  // Tiles, what writes, and what stands outside of the innermost loop stay.
  EXPECT_EQ(Ops(after, OpKind::kIf), 3);
  EXPECT_EQ(Ops(after, OpKind::kSelect), 4);
  for (int64_t l : {0, 1, 2, 3, 7})
    for (const char* out : {"O", "T"})
      EXPECT_EQ(Values(before, l, out), Values(after, l, out)) << l;
}

}  // namespace
}  // namespace tilec::ir
