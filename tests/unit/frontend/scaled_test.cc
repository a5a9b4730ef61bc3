// Scaled products and the numbers that go with them, against loops over the bits, written from OCP
// MX 1.0 and not from the interpreter: bit by bit where f32 holds the sums.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/interpret.h"
#include "ir/numerics.h"
#include "ir/passes/passes.h"
#include "tests/unit/frontend/helper.h"
#include "tests/unit/h200.h"

namespace tilec::frontend {
namespace {

using ir::DType;
using ir::TensorValue;

// OCP MX 1.0, table 5: sign, two bits of exponent with bias 1, one of fraction.
double FourBits(int bits) {
  const int e = bits >> 1 & 3, m = bits & 1;
  const double size = e == 0 ? 0.5 * m : std::ldexp(1 + 0.5 * m, e - 1);
  return bits & 8 ? -size : size;
}

struct Operands {
  int64_t m = 0, n = 0, k = 0, block = 0;
  std::vector<double> a, b;    // numbers, [m, k] and [n, k]
  std::vector<double> sa, sb;  // scales, [m, blocks] and [n, blocks]
  int64_t blocks() const { return (k + block - 1) / block; }
  double At(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t q = 0; q < k; ++q)
      sum += a[static_cast<size_t>(i * k + q)] * sa[static_cast<size_t>(i * blocks() + q / block)] *
             b[static_cast<size_t>(j * k + q)] * sb[static_cast<size_t>(j * blocks() + q / block)];
    return sum;
  }
};

// Fills tensors of the kernel and the numbers beside them.
Operands Fill(ir::InterpretInputs& inputs, DType dtype, DType scale, int64_t m, int64_t n,
              int64_t k) {
  std::mt19937_64 random(5);
  Operands out{m, n, k, scale == DType::kUE4M3 ? 16 : 32, {}, {}, {}, {}};
  const bool pairs = dtype == DType::kE2M1X2;
  const auto numbers = [&](const char* name, int64_t rows, std::vector<double>* values) {
    TensorValue t = TensorValue::Zeros(dtype, {rows, pairs ? k / 2 : k});
    values->resize(static_cast<size_t>(rows * k));
    for (size_t i = 0; i < t.v.size(); ++i) {
      const auto bits = static_cast<int>(random() & 0xFF);
      if (pairs) {
        t.v[i] = bits;
        (*values)[2 * i] = FourBits(bits & 15);
        (*values)[2 * i + 1] = FourBits(bits >> 4);
      } else {
        t.v[i] = (*values)[i] = bits % 15 - 7;  // whole numbers: every sum is exact
      }
    }
    inputs.tensors[name] = std::move(t);
  };
  const auto scales = [&](const char* name, int64_t rows, std::vector<double>* values) {
    TensorValue t = TensorValue::Zeros(scale, {rows, out.blocks()});
    for (double& v : t.v)
      v = scale == DType::kUE8M0 ? std::ldexp(1.0, static_cast<int>(random() % 4))
                                 : 1 + static_cast<double>(random() % 8);
    *values = t.v;
    inputs.tensors[name] = std::move(t);
  };
  numbers("A", m, &out.a);
  numbers("B", n, &out.b);
  scales("SA", m, &out.sa);
  scales("SB", n, &out.sb);
  inputs.tensors["C"] = TensorValue::Zeros(DType::kF32, {m, n});
  return out;
}

constexpr const char* kKernel = R"(
kernel gemm(A: ELEMENT[M, P], SA: SCALE[M, KB], B: ELEMENT[N, P], SB: SCALE[N, KB],
            C: out f32[M, N]) {
  parallel m in tiles(M, 32), n in tiles(N, 16) {
    var acc: f32[32, 16] = 0
    for p in tiles(P, 64) {
      let s = p.start / (64 / BLOCKS)
      acc += dot_scaled(A[m, p], SA[m, s..s + BLOCKS], B[n, p].T, SB[n, s..s + BLOCKS].T)
    }
    C[m, n] = acc
  }
})";

std::string Text(const char* element, const char* scale, int blocks) {
  std::string text = kKernel;
  const auto set = [&](const std::string& name, const std::string& value) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name))
      text.replace(at, name.size(), value);
  };
  set("ELEMENT", element);
  set("SCALE", scale);
  set("BLOCKS", std::to_string(blocks));
  return text;
}

struct Format {
  const char *element, *scale;
  DType dtype, scale_dtype;
  int blocks;  // of 64 elements of a tile's row
  int64_t k;   // ragged
};
constexpr Format kFormats[] = {
    {"e4m3", "ue8m0", DType::kE4M3, DType::kUE8M0, 2, 150},
    {"e5m2", "ue8m0", DType::kE5M2, DType::kUE8M0, 2, 77},
    {"e2m1x2", "ue8m0", DType::kE2M1X2, DType::kUE8M0, 4, 150},
    {"e2m1x2", "ue4m3", DType::kE2M1X2, DType::kUE4M3, 8, 170},
};

// Returns the result.
TensorValue ExpectExact(const ir::Function& fn, const Format& f, DiagSink& diags) {
  ir::InterpretInputs inputs;
  Operands want = Fill(inputs, f.dtype, f.scale_dtype, 40, 21, f.k);
  if (f.dtype == DType::kE5M2) {  // two bits of fraction: 7, 6 and 5 are none of its numbers
    for (double& v : inputs.tensors["A"].v) v = ir::Round(f.dtype, v);
    for (double& v : inputs.tensors["B"].v) v = ir::Round(f.dtype, v);
    want.a = inputs.tensors["A"].v;
    want.b = inputs.tensors["B"].v;
  }
  EXPECT_TRUE(ir::Interpret(fn, inputs, {.threads = 1}, diags).ok()) << ir::Print(fn);
  const TensorValue& c = inputs.tensors["C"];
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t j = 0; j < 21; ++j)
      EXPECT_EQ(c.v[static_cast<size_t>(i * 21 + j)], want.At(i, j))
          << f.element << " " << f.scale << " at " << i << ", " << j;
  return c;
}

TEST(Scaled, ProductsAreExact) {
  for (const Format& f : kFormats) {
    Loaded loaded(Text(f.element, f.scale, f.blocks));
    const std::optional<ir::Function> fn = loaded.Specialized("gemm", {});
    ASSERT_TRUE(fn) << loaded.errors();
    EXPECT_TRUE(ExpectExact(*fn, f, loaded.diags).e.empty())
        << "f32 holds every sum: executors have no room";
  }
}

// Where the machine has no such products: the same values, by a product of bf16.
TEST(Scaled, DecodedProductsAreTheSame) {
  for (const Format& f : kFormats) {
    Loaded loaded(Text(f.element, f.scale, f.blocks));
    std::optional<ir::Function> fn = loaded.Specialized("gemm", {});
    ASSERT_TRUE(fn) << loaded.errors();
    ir::PassContext cx{loaded.diags, ir::H200()};
    ASSERT_TRUE(ir::DecodeScales(*fn, cx).ok()) << loaded.errors();
    EXPECT_EQ(cx.changes, 1);
    for (ir::OpId id : ir::OpsInOrder(*fn)) {
      const ir::Op& op = fn->ops[id];
      if (op.kind != ir::OpKind::kDot) continue;
      EXPECT_EQ(op.operands.size(), 3u);
      EXPECT_EQ(fn->type(op.operands[0]).dtype, DType::kBF16);
      // A piece of the tile's 64 in each iteration; one scale is broadcast, not gathered.
      EXPECT_EQ(fn->type(op.operands[0]).shape[1], 32);
    }
    EXPECT_EQ(ir::Print(*fn).find("\"rg\"") == std::string::npos, f.blocks == 2);
    ExpectExact(*fn, f, loaded.diags);
  }
}

// A loop that does more than to add up keeps its iterations.
TEST(Scaled, LoopsThatDoMoreAreNotCut) {
  for (const Format& f : kFormats) {
    std::string text = Text(f.element, f.scale, f.blocks);
    const std::string product = "SB[n, s..s + " + std::to_string(f.blocks) + "].T)\n";
    ASSERT_NE(text.find(product), std::string::npos);
    text.insert(text.find(product) + product.size(), "      acc = acc * 1.0\n");
    Loaded loaded(text);
    std::optional<ir::Function> fn = loaded.Specialized("gemm", {});
    ASSERT_TRUE(fn) << loaded.errors();
    ir::PassContext cx{loaded.diags, ir::H200()};
    ASSERT_TRUE(ir::DecodeScales(*fn, cx).ok()) << loaded.errors();
    for (ir::OpId id : ir::OpsInOrder(*fn)) {
      const ir::Op& op = fn->ops[id];
      if (op.kind == ir::OpKind::kDot) {
        EXPECT_EQ(fn->type(op.operands[0]).shape[1], 64);
      }
    }
    ExpectExact(*fn, f, loaded.diags);
  }
}

TEST(Scaled, PackedNumbersAreTheNearest) {
  Loaded loaded(R"(
kernel pack(X: f32[N], Y: f32[N], Q: out e2m1x2[N], L: out f32[N], H: out f32[N]) {
  parallel n in tiles(N, 64) {
    let q = pack_e2m1(X[n], Y[n])
    Q[n] = q
    L[n] = low_e2m1(q)
    H[n] = high_e2m1(q)
  }
})");
  const std::optional<ir::Function> fn = loaded.Specialized("pack", {});
  ASSERT_TRUE(fn) << loaded.errors();
  ir::InterpretInputs inputs;
  TensorValue x = TensorValue::Zeros(DType::kF32, {257}), y = x;
  for (size_t i = 0; i < 257; ++i) {
    x.v[i] = (static_cast<double>(i) - 128) / 16;  // all ties, and beyond 6
    y.v[i] = -x.v[i] / 3;
  }
  y.v[0] = std::nan("");
  y.v[1] = INFINITY;
  inputs.tensors = {{"X", x}, {"Y", y}};
  inputs.tensors["Q"] = TensorValue::Zeros(DType::kE2M1X2, {257});
  inputs.tensors["L"] = inputs.tensors["H"] = TensorValue::Zeros(DType::kF32, {257});
  ASSERT_TRUE(ir::Interpret(*fn, inputs, {.threads = 1}, loaded.diags).ok());
  const auto nearest = [](double v) {
    int best = 0;
    for (int code = 1; code < 8; ++code) {
      const double was = std::fabs(FourBits(best) - std::fabs(v)),
                   is = std::fabs(FourBits(code) - std::fabs(v));
      if (is < was || (is == was && code % 2 == 0)) best = code;
    }
    return v < 0 ? -FourBits(best) : FourBits(best);
  };
  for (size_t i = 0; i < 257; ++i) {
    const auto byte = static_cast<int>(inputs.tensors["Q"].v[i]);
    EXPECT_EQ(FourBits(byte & 15), nearest(x.v[i])) << x.v[i];
    EXPECT_EQ(inputs.tensors["L"].v[i], nearest(x.v[i])) << x.v[i];
    if (i > 1) {
      EXPECT_EQ(inputs.tensors["H"].v[i], nearest(y.v[i])) << y.v[i];
    }
  }
  EXPECT_EQ(inputs.tensors["H"].v[0], 6) << "NaN";
  EXPECT_EQ(inputs.tensors["H"].v[1], 6) << "infinity";
}

// The largest power of two not above |x| (OCP MX 1.0, 6.3), and what has no code.
TEST(Scaled, ScalesAreRoundedDown) {
  const std::pair<double, double> ue8m0[] = {{1, 1},
                                             {1.99, 1},
                                             {2, 2},
                                             {-3, 2},
                                             {0, 0x1p-127},
                                             {0.3, .25},
                                             {1e-45, 0x1p-127},
                                             {INFINITY, 0x1p127},
                                             {0x1.8p127, 0x1p127},
                                             {0x1p-126, 0x1p-126}};
  for (const auto& [x, want] : ue8m0) EXPECT_EQ(ir::Round(DType::kUE8M0, x), want) << x;
  const std::pair<double, double> ue4m3[] = {
      {1, 1},      {-1, 0},      {1000, 448},         {1.06, 1},
      {1.0625, 1}, {0x1p-10, 0}, {0x1.8p-10, 0x1p-9}, {0x1p-9, 0x1p-9}};
  for (const auto& [x, want] : ue4m3) EXPECT_EQ(ir::Round(DType::kUE4M3, x), want) << x;
  for (DType d : {DType::kUE8M0, DType::kUE4M3}) {
    EXPECT_TRUE(std::isnan(ir::Round(d, std::nan(""))));
    for (int bits = 0; bits < (d == DType::kUE8M0 ? 255 : 127); ++bits) {
      const std::byte raw{static_cast<uint8_t>(bits)};
      std::byte again{};
      ir::StoreFloat(d, ir::LoadFloat(d, &raw), &again);
      EXPECT_EQ(raw, again) << Spelling(d) << " " << bits;
    }
  }
}

}  // namespace
}  // namespace tilec::frontend
