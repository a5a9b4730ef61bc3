// A tiled product, for tests of what passes make of a grid.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/passes/split_reductions.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {

// C = A · Bᵀ in tiles of 64 x COLUMNS; %END is where a tile's loop over the contracted dim ends.
inline constexpr const char* kProduct = R"(func @product tile {
  param tensor %A: tensor<bf16, 2> in [M, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %B: tensor<bf16, 2> in [N, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %C: tensor<f32, 2> out [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  param dim %K: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M, %0, %N {steps = [64, COLUMNS]} do (%m: i64, %n: i64) {
      %w = constant {value = 64} : i64
      %me = add %m, %w : i64
      %low = min %me, %K : i64
      %z = constant {value = 0} : f32[64, COLUMNS]
      %c = for %0, %END, %z {step = 32} : f32[64, COLUMNS] do (%k: i64, %s: f32[64, COLUMNS]) {
        %a = load %A, %m, %k {modes = "rr", sizes = [64, 32]} : bf16[64, 32]
        %b = load %B, %n, %k {modes = "rr", sizes = [COLUMNS, 32]} : bf16[COLUMNS, 32]
        %bt = transpose %b {perm = [1, 0]} : bf16[32, COLUMNS]
        %d = dot %a, %bt, %s : f32[64, COLUMNS]
        yield %d
      }
      %mend = min %me, %M : i64
      %v = constant {value = COLUMNS} : i64
      %ne = add %n, %v : i64
      %nend = min %ne, %N : i64
      store %C, %c, %m, %mend, %n, %nend {modes = "rr", sizes = [64, COLUMNS]}
      yield
    }
  }
}
)";

// C of random A and B.
inline std::vector<double> ProductOf(const Function& fn, int64_t m, int64_t n, int64_t k) {
  InterpretInputs in;
  in.tensors["A"] = TensorValue::Random(DType::kBF16, {m, k}, 1);
  in.tensors["B"] = TensorValue::Random(DType::kBF16, {n, k}, 2);
  in.tensors["C"] = TensorValue::Zeros(DType::kF32, {m, n});
  in.dims = {{"M", m}, {"N", n}, {"K", k}};
  return Interpreted(fn, std::move(in), "C");
}

// Its text, with a loop that ends at `end`.
inline std::string ProductText(const std::string& end, int64_t columns = 32) {
  return With(With(kProduct, "%END", end), "COLUMNS", std::to_string(columns));
}

// `from`, if given, replaced by `to`.
inline Function Product(const std::string& end, std::string_view from = "",
                        std::string_view to = "") {
  std::string text = ProductText(end);
  return Parsed(from.empty() ? text : With(std::move(text), from, to));
}

// Its loop shared by the CTAs of a cluster.
inline Function Split(const Function& fn, int64_t ctas) {
  Function out = fn;
  const std::optional<Obstacle> obstacle = SplitReductions(out, ctas, H200());
  EXPECT_FALSE(obstacle) << obstacle->why;
  ExpectVerified(out);
  return out;
}

// C of small integers: the same in every order of sums.
inline std::vector<double> Exact(const Function& fn, int64_t m, int64_t n, int64_t k) {
  InterpretInputs in;
  in.tensors["A"] = Numbers(DType::kBF16, {m, k}, 1);
  in.tensors["B"] = Numbers(DType::kBF16, {n, k}, 4);
  in.tensors["C"] = Numbers(DType::kF32, {m, n}, 2);
  in.dims = {{"M", m}, {"N", n}, {"K", k}};
  return Interpreted(fn, std::move(in), "C");
}

}  // namespace tilec::ir
