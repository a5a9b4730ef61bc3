// Attention of a few heads as text, for tests of passes that know sums kept relative to a largest
// value.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/unit/lower/helper.h"

namespace tilec::ir {

inline constexpr const char* kAttention = R"(func @attention tile {
  param tensor %Q: tensor<bf16, 3> in [H, S, 32] align=16 stride_align=16 contiguous=1 last_align=8
  param tensor %K: tensor<bf16, 3> in [G, L, 32] align=16 stride_align=16 contiguous=1 last_align=8
  param tensor %V: tensor<bf16, 3> in [G, L, 32] align=16 stride_align=16 contiguous=1 last_align=8
  param tensor %O: tensor<f32, 3> out [H, S, 32] align=16 stride_align=16 contiguous=1 last_align=8
  param dim %H: i64
  param dim %S: i64
  param dim %G: i64
  param dim %L: i64
  param scalar %c: f32
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %S, %0, %H {steps = [16, 1]} do (%q: i64, %h: i64) {
      %R = div %H, %G : i64
      %g = div %h, %R : i64
      %w = constant {value = 32} : i64
      %z = constant {value = 0.0} : f32[16, 32]
      %z1 = constant {value = 0.0} : f32[16]
      %zs = constant {value = 0.0} : f32[16, 16]
      %low = constant {value = -inf} : f32[16]
      %lows = constant {value = -inf} : f32[16, 16]
      %qt = load %Q, %h, %q, %0 {modes = "srr", sizes = [1, 16, 32]} : bf16[16, 32]
      %rows = iota %q : i32[16]
      %rows1 = reshape %rows : i32[16, 1]
      %rowst = broadcast %rows1 {axes = [0, 1]} : i32[16, 16]
      %L32 = cast %L : i32
      %Lt = broadcast %L32 {axes = []} : i32[16, 16]
      %c1 = broadcast %c {axes = []} : f32[16]
      %c2 = broadcast %c {axes = []} : f32[16, 16]
      %l, %acc, %m = for %0, %L, %z1, %z, %low {step = 16} : f32[16], f32[16, 32], f32[16]
          do (%k: i64, %l0: f32[16], %a0: f32[16, 32], %m0: f32[16]) {
        %kt = load %K, %g, %k, %0 {modes = "srr", sizes = [1, 16, 32]} : bf16[16, 32]
        %ktt = transpose %kt {perm = [1, 0]} : bf16[32, 16]
        %s0 = dot %qt, %ktt, %zs : f32[16, 16]
        %cols = iota %k : i32[16]
        %cols1 = reshape %cols : i32[1, 16]
        %colst = broadcast %cols1 {axes = [0, 1]} : i32[16, 16]
        %in = cmp %colst, %Lt {pred = "lt"} : bool[16, 16]
        %seen = cmp %colst, %rowst {pred = "SEEN"} : bool[16, 16]
        %both = and %in, %seen : bool[16, 16]
        %s = select %both, %s0, %lows : f32[16, 16]
        %most = reduce %s {kind = "max", axis = 1} : f32[16]
        %m1 = max %m0, %most : f32[16]
        %x = mul %s, %c2 : f32[16, 16]
        %mc = mul %m1, %c1 : f32[16]
        %mc1 = reshape %mc : f32[16, 1]
        %mct = broadcast %mc1 {axes = [0, 1]} : f32[16, 16]
        %d = sub %x, %mct : f32[16, 16]
        %p = exp2 %d : f32[16, 16]
        %mo = mul %m0, %c1 : f32[16]
        %da = sub %mo, %mc : f32[16]
        %f = exp2 %da : f32[16]
        %lf = mul %l0, %f : f32[16]
        %ps = reduce %p {kind = "sum", axis = 1} : f32[16]
        %l1 = add %lf, %ps : f32[16]
        %f1 = reshape %f : f32[16, 1]
        %ft = broadcast %f1 {axes = [0, 1]} : f32[16, 32]
        %af = mul %a0, %ft : f32[16, 32]
        %pb = cast %p : bf16[16, 16]
        %vt = load %V, %g, %k, %0 {modes = "srr", sizes = [1, 16, 32]} : bf16[16, 32]
        %a1 = dot %pb, %vt, %af : f32[16, 32]
        yield %l1, %a1, %m1
      }
      %lt1 = reshape %l : f32[16, 1]
      %lt = broadcast %lt1 {axes = [0, 1]} : f32[16, 32]
      %o = div %acc, %lt : f32[16, 32]
      %n = constant {value = 16} : i64
      %qe = add %q, %n : i64
      %qend = min %qe, %S : i64
      store %O, %o, %h, %q, %qend, %0, %w {modes = "srr", sizes = [1, 16, 32]}
      yield
    }
  }
}
)";

// `seen`: how a key's position compares with that of a query that sees it.
inline std::string Attention(const std::string& seen = "le") {
  return With(kAttention, "SEEN", seen);
}

inline std::vector<double> Attended(const Function& fn, int64_t h, int64_t g, int64_t s,
                                    int64_t l) {
  InterpretInputs in;
  in.tensors["Q"] = Numbers(DType::kBF16, {h, s, 32}, 1);
  in.tensors["K"] = Numbers(DType::kBF16, {g, l, 32}, 4);
  in.tensors["V"] = Numbers(DType::kBF16, {g, l, 32}, 2);
  in.scalars["c"] = 0.02;
  in.dims = {{"H", h}, {"S", s}, {"G", g}, {"L", l}};
  return Interpreted(fn, std::move(in), "O");
}

}  // namespace tilec::ir
