// From text to numbers: kernels go through the front end and the interpreter, and are compared with
// loops written by hand. The two kernels of the language's front page, and constructs whose IR is
// easy to get subtly wrong (carried vars, nested ifs, inlining, gathers, clipping).
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "ir/interpret.h"
#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

using ir::DType;
using ir::TensorValue;

struct Kernels {
  Loaded loaded;
  ir::InterpretInputs inputs;
  explicit Kernels(const std::string& text) : loaded(text) {}

  TensorValue& Random(const std::string& name, std::vector<int64_t> dims, DType d = DType::kF32) {
    const uint64_t seed = 17 + inputs.tensors.size();
    return inputs.tensors[name] = TensorValue::Random(d, std::move(dims), seed);
  }
  // The tensor after the kernel; empty after a failure.
  std::vector<double> operator()(const std::string& kernel, const std::string& result,
                                 const Values& values = {}) {
    const std::optional<ir::Function> fn = loaded.Specialized(kernel, values);
    EXPECT_TRUE(fn) << loaded.errors();
    if (!fn) return {};
    const bool ok = ir::Interpret(*fn, inputs, {.threads = 1}, loaded.diags).ok();
    EXPECT_TRUE(ok) << loaded.errors() << ir::Print(*fn);
    return inputs.tensors[result].v;
  }
};

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::fabs(want[i]))) << "element " << i;
}

TEST(Meaning, GemmOfTheFrontPage) {
  Kernels run(R"(
kernel gemm(A: bf16[M, K], B: bf16[N, K], C: out bf16[M, N]) {
  tune BM = 128 in {64, 128, 192, 256}
  tune BN = 256 in 64..256 step 16
  tune BK = 64  in {64, 128}
  parallel m in tiles(M, BM), n in tiles(N, BN) {
    var acc: f32[BM, BN] = 0
    for k in tiles(K, BK) {
      acc += A[m, k] @ B[n, k].T
    }
    C[m, n] = acc as bf16
  }
})");
  const int64_t M = 70, N = 90, K = 150;
  const TensorValue a = run.Random("A", {M, K}, DType::kBF16);
  const TensorValue b = run.Random("B", {N, K}, DType::kBF16);
  std::vector<double> want;
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < K; ++k) sum += a.v[m * K + k] * b.v[n * K + k];
      want.push_back(sum);
    }
  ExpectNear(run("gemm", "C", {{"BM", int64_t{64}}, {"BN", int64_t{80}}}), want, 1.0 / 200);
}

TEST(Meaning, AttentionOfTheFrontPage) {
  Kernels run(R"(
const LOG2E = 1.4426950408889634

kernel attention(Q: bf16[B, H, S, D], K: bf16[B, G, L, D], V: bf16[B, G, L, D],
                 O: out bf16[B, H, S, D], scale: f32, causal: const bool = false)
  where D in {64, 128, 256}, H % G == 0, L >= 1, scale > 0
{
  tune BQ = 128 in {64, 128, 192}
  tune BKV = 128 in 64..176 step 16
  let c = scale * LOG2E
  parallel q in tiles(S, BQ), h in 0..H, b in 0..B {
    let g  = h / (H / G)
    let qt = Q[b, h, q, :]
    var acc: f32[BQ, D] = 0
    var m: f32[BQ] = -inf
    var l: f32[BQ] = 0
    let last = if causal { min(L, q.end) } else { L }
    for k in tiles(last, BKV) {
      var s = qt @ K[b, g, k, :].T
      s = select(k.index[None, :] < L and (not causal or k.index[None, :] <= q.index[:, None]),
                 s, -inf)
      let m_new = max(m, max(s, axis = 1))
      let p     = exp2(s * c - (m_new * c)[:, None])
      let alpha = exp2(m * c - m_new * c)
      l   = l * alpha + sum(p, axis = 1)
      acc = acc * alpha[:, None] + (p as bf16) @ V[b, g, k, :]
      m   = m_new
    }
    O[b, h, q, :] = (acc / l[:, None]) as bf16
  }
})");
  const int64_t B = 1, H = 2, G = 1, S = 70, L = 100, D = 64;
  const double scale = 0.25;
  for (const bool causal : {false, true}) {
    run.inputs.tensors.clear();
    const TensorValue q = run.Random("Q", {B, H, S, D}, DType::kBF16);
    const TensorValue k = run.Random("K", {B, G, L, D}, DType::kBF16);
    const TensorValue v = run.Random("V", {B, G, L, D}, DType::kBF16);
    run.inputs.scalars["scale"] = scale;
    std::vector<double> want;
    for (int64_t h = 0; h < H; ++h)
      for (int64_t s = 0; s < S; ++s) {
        const int64_t last = causal ? std::min(L, s + 1) : L;
        std::vector<double> p(static_cast<size_t>(last)), row(static_cast<size_t>(D));
        double total = 0;
        for (int64_t l = 0; l < last; ++l) {
          double dot = 0;
          for (int64_t d = 0; d < D; ++d) dot += q.v[(h * S + s) * D + d] * k.v[l * D + d];
          total += p[l] = std::exp(dot * scale);
        }
        for (int64_t l = 0; l < last; ++l)
          for (int64_t d = 0; d < D; ++d) row[d] += p[l] / total * v.v[l * D + d];
        want.insert(want.end(), row.begin(), row.end());
      }
    ExpectNear(run("attention", "O",
                   {{"D", D}, {"causal", causal}, {"BQ", int64_t{64}}, {"BKV", int64_t{80}}}),
               want, 0.01);
  }
}

TEST(Meaning, NormalizationWithAFunction) {
  Kernels run(R"(
fn moments(x: f32[M, N], n: i64) -> f32[M] {
  return sum(x, axis = 1) / (n as f32)
}

kernel layernorm(X: f32[M, N], W: f32[N], Y: out f32[M, N], eps: f32) {
  tune BM = 4
  parallel m in tiles(M, BM) {
    var total: f32[BM] = 0
    for n in tiles(N, 16) { total += moments(X[m, n], N) }
    var square: f32[BM] = 0
    for n in tiles(N, 16) {
      let d = select(n.index[None, :] < N, X[m, n] - total[:, None], 0)
      square += moments(d * d, N)
    }
    let r = rsqrt(square + eps)
    for n in tiles(N, 16) {
      Y[m, n] = (X[m, n] - total[:, None]) * r[:, None] * W[n][None, :]
    }
  }
})");
  const int64_t M = 7, N = 37;
  const TensorValue x = run.Random("X", {M, N}), w = run.Random("W", {N});
  run.inputs.scalars["eps"] = 1e-3;
  std::vector<double> want;
  for (int64_t m = 0; m < M; ++m) {
    double mean = 0, var = 0;
    for (int64_t n = 0; n < N; ++n) mean += x.v[m * N + n] / N;
    for (int64_t n = 0; n < N; ++n) var += std::pow(x.v[m * N + n] - mean, 2) / N;
    for (int64_t n = 0; n < N; ++n)
      want.push_back((x.v[m * N + n] - mean) / std::sqrt(var + 1e-3) * w.v[n]);
  }
  ExpectNear(run("layernorm", "Y"), want, 1e-4);
}

TEST(Meaning, ControlFlowCarriesTheRightValues) {
  Kernels run(R"(
kernel collatz(X: i32[N], Y: out i32[N], Z: out i32[N], cap: i32) {
  parallel n in 0..N {
    var x = X[n] + 20
    var steps = 0
    var peak = x
    while x != 1 and steps < cap {
      if x % 2 == 0 {
        x = x / 2
      } else if x % 3 == 0 {
        x = x * 3 + 1
        if x > peak { peak = x }
      } else {
        let up = 3 * x + 1
        x = up
        peak = max(peak, up)
      }
      steps += 1
    }
    for i in 0..3 {
      for j in i..3 { peak += 1 }
    }
    Y[n] = steps
    Z[n] = peak
  }
})");
  const TensorValue x = run.Random("X", {40}, DType::kI32);
  run.inputs.dims["cap"] = 60;
  run.inputs.scalars["cap"] = 60;
  std::vector<double> steps, peaks;
  for (double start : x.v) {
    int64_t v = static_cast<int64_t>(start) + 20, n = 0, peak = v;
    for (; v != 1 && n < 60; ++n) {
      v = v % 2 == 0 ? v / 2 : 3 * v + 1;
      peak = std::max(peak, v);
    }
    steps.push_back(static_cast<double>(n));
    peaks.push_back(static_cast<double>(peak + 6));
  }
  ExpectNear(run("collatz", "Y"), steps, 0);
  ExpectNear(run.inputs.tensors["Z"].v, peaks, 0);
}

TEST(Meaning, GatherFillSlicesAndScans) {
  Kernels run(R"(
kernel pick(T: f32[V, D], I: i32[N], Y: out f32[N, D], C: out f32[N, D], P: out i32[N]) {
  parallel n in tiles(N, 8) {
    let rows = T[I[n] + 8, :]
    let guarded = select((n.index < N)[:, None], rows, 0)
    Y[n, :] = guarded * 2 + T[0, 0..D][None, :]
    C[n, :] = cumsum(guarded, axis = 1)
    P[n] = argmax(rows, axis = 1)
  }
})");
  const int64_t V = 12, D = 5, N = 13;
  const TensorValue t = run.Random("T", {V, D});
  TensorValue& index = run.Random("I", {N}, DType::kI32);
  std::vector<double> y, c, p;
  for (int64_t n = 0; n < N; ++n) {
    const int64_t row = static_cast<int64_t>(index.v[n]) + 8;
    double sum = 0;
    int64_t best = 0;
    auto at = [&](int64_t d) { return row < V ? t.v[row * D + d] : 0.0; };
    for (int64_t d = 0; d < D; ++d) {
      y.push_back(at(d) * 2 + t.v[d]);
      c.push_back(sum += at(d));
      if (at(d) > at(best)) best = d;
    }
    p.push_back(static_cast<double>(best));
  }
  ExpectNear(run("pick", "Y", {{"D", D}}), y, 1e-5);
  ExpectNear(run.inputs.tensors["C"].v, c, 1e-5);
  ExpectNear(run.inputs.tensors["P"].v, p, 0);
}

TEST(Meaning, IfExpressionsAndConstants) {
  Kernels run(R"(
const SCALE: f32 = 0.5
const LIMIT = if SCALE > 0.25 { 3 } else { 4 }

fn step(x: f32[N], i: i64, sharp: const bool = false) -> f32[N] where N % 2 == 0 {
  let k = if sharp { 2.0 } else { 1.0 }
  return x * k + (i as f32)
}

kernel k(X: f32[N], Y: out f32[N]) {
  parallel n in tiles(N, 4) {
    var x = X[n]
    for i in 0..LIMIT {
      let bias = if i == 1 { X[0] } else if i % 2 == 0 { 1.0 } else { SCALE }
      x = step(x, i, sharp = true) + bias
    }
    Y[n] = x
  }
})");
  const TensorValue x = run.Random("X", {10});
  std::vector<double> want;
  for (double v : x.v) {
    for (int i = 0; i < 3; ++i) v = v * 2 + i + (i == 1 ? x.v[0] : 1.0);
    want.push_back(v);
  }
  ExpectNear(run("k", "Y"), want, 1e-5);
}

TEST(Meaning, StoresClipToRangeAndTensor) {
  Kernels run(R"(
kernel k(Y: inout f32[N]) {
  parallel one in 0..1 {
    for n in tiles(2..5, 4) { Y[n] = 7 }
    Y[N - 2..N + 2] = 9
    atomic_add(Y[0], 2.5)
  }
})");
  run.inputs.tensors["Y"] = TensorValue::Zeros(DType::kF32, {10});
  ExpectNear(run("k", "Y"), {2.5, 0, 7, 7, 7, 0, 0, 0, 9, 9}, 0);
}

}  // namespace
}  // namespace tilec::frontend
