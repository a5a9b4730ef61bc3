// A product of two matrices and what the sequential lowering makes of a kernel.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>

#include "ir/lower/sequential.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {

inline Function Lowered(const std::string& text) {
  DiagSink diags;
  SourceMap sources;
  const Function tile = Parsed(text);
  Result<Function> warp = Sequentialize(tile, H200(), {}, diags);
  EXPECT_TRUE(warp.ok()) << RenderAll(diags, sources);
  if (!warp.ok()) return {};
  ExpectVerified(*warp);
  return std::move(*warp);
}

// C = A · Bᵀ with tiles bm x bn x bk; `align` is what TMA needs 16 of.
inline std::string Gemm(int bm, int bn, int bk, int align, const char* dtype = "bf16",
                        const char* acc = "f32", bool b_is_kn = false) {
  const std::string b_load = b_is_kn ? fmt::format(R"(
        %bt = load %B, %k, %n {{modes = "rr", sizes = [{1}, {0}]}} : {2}[{1}, {0}])",
                                                   bn, bk, dtype)
                                     : fmt::format(R"(
        %b = load %B, %n, %k {{modes = "rr", sizes = [{0}, {1}]}} : {2}[{0}, {1}]
        %bt = transpose %b {{perm = [1, 0]}} : {2}[{1}, {0}])",
                                                   bn, bk, dtype);
  return fmt::format(R"(func @gemm tile {{
  param tensor %A: tensor<{4}, 2> in [M, K] align={3} stride_align={3} contiguous=1{7}
  param tensor %B: tensor<{4}, 2> in [N, K] align={3} stride_align={3} contiguous=1
  param tensor %C: tensor<{5}, 2> out [M, N] align={3} stride_align={3} contiguous=1{7}
  param dim %M: i64
  param dim %K: i64
  param dim %N: i64
  body {{
    %0 = constant {{value = 0}} : i64
    parallel %0, %M, %0, %N {{steps = [{0}, {1}]}} do (%m: i64, %n: i64) {{
      %z = constant {{value = 0}} : {5}[{0}, {1}]
      %r = for %0, %K, %z {{step = {2}}} : {5}[{0}, {1}] do (%k: i64, %acc: {5}[{0}, {1}]) {{
        %a = load %A, %m, %k {{modes = "rr", sizes = [{0}, {2}]}} : {4}[{0}, {2}]{6}
        %d = dot %a, %bt, %acc : {5}[{0}, {1}]
        yield %d
      }}
      %bm = constant {{value = {0}}} : i64
      %bn = constant {{value = {1}}} : i64
      %me0 = add %m, %bm : i64
      %me = min %me0, %M : i64
      %ne0 = add %n, %bn : i64
      %ne = min %ne0, %N : i64
      store %C, %r, %m, %me, %n, %ne {{modes = "rr", sizes = [{0}, {1}]}}
      yield
    }}
  }}
}}
)",
                     bm, bn, bk, align, dtype, acc, b_load, align == 16 ? " last_align=16" : "");
}

}  // namespace tilec::ir
