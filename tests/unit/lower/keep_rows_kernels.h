// Kernels whose loops read rows again, what keep-rows makes of them, and how it is compared with
// what they meant.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {

// Rows less their means: 12 chunks of 256, 3000 columns, tiles of 8 rows; %S stores row sums.
constexpr const char* kRows = R"(func @rows tile {
  param tensor %X: tensor<f32, 2> in [R, 3000] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %I: tensor<i32, 1> in [R] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<f32, 2> out [R, 3000] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %S: tensor<f32, 1> out [R] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %W: tensor<f32, 2> inout [R, R] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %R: i64
  body {
    %0 = constant {value = 0} : i64
    %c8 = constant {value = 8} : i64
    %c256 = constant {value = 256} : i64
    %end = constant {value = 3000} : i64
    parallel %0, %R {steps = [8]} do (%r: i64) {
      %zero = constant {value = 0.0} : f32[8]
      %next = add %r, %c8 : i64
      %stop = min %next, %R : i64
      %at = load %I, %r {modes = "r", sizes = [8]} : i32[8]
      %sum = for %0, %end, %zero {step = 256} : f32[8] do (%c: i64, %s: f32[8]) {
        %x = load %X, %r, %c {modes = "rr", sizes = [8, 256]} : f32[8, 256]
        %part = reduce %x {kind = "sum", axis = 1} : f32[8]
        %both = add %s, %part : f32[8]
        yield %both
      }
      store %S, %sum, %r, %stop {modes = "r", sizes = [8]}
      %n = constant {value = 3000.0} : f32[8]
      %mean = div %sum, %n : f32[8]
      for %0, %end {step = 256} do (%d: i64) {
        %z = load %X, %r, %d {modes = "rr", sizes = [8, 256]} : f32[8, 256]
        %mb = broadcast %mean {axes = [0]} : f32[8, 256]
        %y = sub %z, %mb : f32[8, 256]
        %e = add %d, %c256 : i64
        %f = min %e, %end : i64
        store %Y, %y, %r, %stop, %d, %f {modes = "rr", sizes = [8, 256]}
        yield
      }
      yield
    }
  }
}
)";

// The same rows, gathered.
inline std::string Gathered(std::string text) {
  for (const char* column : {"%c", "%d"})
    text = With(text, std::string("load %X, %r, ") + column + " {modes = \"rr\"",
                std::string("load %X, %at, ") + column + " {modes = \"gr\"");
  return text;
}

inline Function Keep(const Function& before, int changes) {
  Function after = before;
  DiagSink diags;
  PassContext cx{diags, H200(), 0};
  EXPECT_TRUE(KeepRows(after, cx).ok());
  EXPECT_EQ(cx.changes, changes);
  EXPECT_EQ(diags.all().size(), static_cast<size_t>(changes));  // and says so
  ExpectVerified(after);
  return after;
}

// How many loads of X have the mark `kept` (at least `from`); without it: −1 counts all.
inline int64_t Marked(const Function& fn, int64_t from) {
  int64_t n = 0;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    n += op.kind == OpKind::kLoad && op.attr("kept") && op.i("kept") >= from;
  }
  return n;
}
inline int64_t LoadsOfX(const Function& fn) {
  int64_t n = 0;
  for (OpId id : OpsInOrder(fn))
    n += fn.ops[id].kind == OpKind::kLoad && fn.param(fn.ops[id].operands[0])->name == "X";
  return n;
}
inline int64_t Step(const Function& fn) {
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kParallel) return fn.ops[id].ints("steps")[0];
  return 0;
}

inline void ExpectSame(const Function& before, const Function& after, int64_t rows,
                       int64_t columns) {
  std::vector<std::vector<double>> outputs;
  for (const Function* fn : {&before, &after}) {
    InterpretInputs in;
    in.tensors["X"] = TensorValue::Random(DType::kF32, {rows, columns}, 7);
    in.tensors["I"] = TensorValue::Zeros(DType::kI32, {rows});
    for (size_t i = 0; i < static_cast<size_t>(rows); ++i)  // also where no row is
      in.tensors["I"].v[i] = static_cast<double>(static_cast<int64_t>((7 * i + 5) % 23) - 2);
    in.tensors["Y"] = TensorValue::Zeros(DType::kF32, {rows, columns});
    in.tensors["S"] = TensorValue::Zeros(DType::kF32, {rows});
    in.tensors["W"] = TensorValue::Zeros(DType::kF32, {rows, rows});
    in.dims = {{"R", rows}};
    DiagSink diags;
    EXPECT_TRUE(Interpret(*fn, in, {}, diags).ok());
    outputs.push_back(in.tensors["Y"].v);
    outputs.push_back(in.tensors["S"].v);
  }
  EXPECT_NE(outputs[0][0], 0);
  EXPECT_EQ(outputs[0], outputs[2]);
  EXPECT_EQ(outputs[1], outputs[3]);
}

}  // namespace tilec::ir
