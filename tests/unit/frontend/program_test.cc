// Programs, signatures, facts, statics.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

constexpr const char* kAttention = R"(
const LOG2E = 1.4426950408889634

kernel attention(Q: bf16[B, H, S, D], K: bf16[B, G, L, D], O: out bf16[B, H, S, D], scale: f32,
                 causal: const bool = false)
  where D in {64, 128, 256}, H % G == 0, scale > 0
{
  tune BQ = 128 in {64, 128, 192}
  tune BKV = BQ / 2 in 64..176 step 16
  parallel q in tiles(S, BQ), h in 0..H, b in 0..B {
    let qt = Q[b, h, q, :]
    var acc: f32[BQ, BKV] = 0
    for k in tiles(L, BKV) {
      acc += qt @ K[b, h / (H / G), k, :].T
    }
    O[b, h, q, :] = (sum(acc, axis = 1)[:, None] * scale + (qt as f32)) as bf16
  }
}

test "small" {
  attention(B = 1, H = 2, G = 1, S = 100, L = 50, D = 64, scale = 0.125, causal = true) ~ 1e-3
  attention(B = 1, H = 2, G = 1, S = 10, L = 50, D = 64, scale = 1, seed = 7)
}
)";

TEST(Signature, Attention) {
  Loaded loaded(kAttention);
  ASSERT_TRUE(loaded.program) << loaded.errors();
  EXPECT_EQ(loaded.program->kernels(), std::vector<std::string>{"attention"});
  const Signature* sig = loaded.program->FindSignature("attention");
  ASSERT_TRUE(sig);
  ASSERT_EQ(sig->params.size(), 5u);
  EXPECT_EQ(sig->params[1].name, "K");
  EXPECT_EQ(sig->params[2].direction, ir::Direction::kOut);
  EXPECT_EQ(sig->params[3].role, ParamRole::kScalar);
  EXPECT_EQ(sig->params[4].role, ParamRole::kConst);
  EXPECT_EQ(sig->params[4].default_value, std::optional<ConstValue>(false));
  std::string dims;
  for (const DimInfo& d : sig->dims) dims += d.name + (d.is_static ? "! " : " ");
  EXPECT_EQ(dims, "B H S D! G L ");
  EXPECT_TRUE(sig->IsStatic("D"));
  EXPECT_TRUE(sig->IsStatic("BQ"));
  EXPECT_TRUE(sig->IsStatic("causal"));
  EXPECT_FALSE(sig->IsStatic("S"));
  EXPECT_FALSE(sig->IsStatic("scale"));
  ASSERT_EQ(sig->tunes.size(), 2u);
  EXPECT_EQ(sig->tunes[0].candidates.size(), 3u);
  EXPECT_EQ(sig->tunes[1].default_value, std::optional<ConstValue>(int64_t{64}));
  EXPECT_EQ(sig->tunes[1].candidates.size(), 8u);
  EXPECT_EQ(sig->facts.size(), 3u);
}

TEST(Signature, Tests) {
  Loaded loaded(kAttention);
  ASSERT_TRUE(loaded.program) << loaded.errors();
  ASSERT_EQ(loaded.program->tests().size(), 1u);
  const TestInfo& test = loaded.program->tests()[0];
  EXPECT_EQ(test.name, "small");
  ASSERT_EQ(test.calls.size(), 2u);
  EXPECT_EQ(test.calls[0].args.at("causal"), ConstValue(true));
  EXPECT_EQ(test.calls[0].args.at("scale"), ConstValue(0.125));
  EXPECT_EQ(test.calls[0].args.at("S"), ConstValue(int64_t{100}));
  EXPECT_DOUBLE_EQ(test.calls[0].tolerance.value(), 1e-3);
  EXPECT_FALSE(test.calls[1].tolerance);
  EXPECT_EQ(test.calls[1].seed, std::optional<int64_t>(7));
  EXPECT_EQ(test.calls[1].args.count("seed"), 0u);
}

TEST(Signature, UnknownKernelIsExplained) {
  Loaded loaded(kAttention);
  ASSERT_TRUE(loaded.program);
  EXPECT_FALSE(SignatureOf(*loaded.program, "atention", loaded.diags).ok());
  EXPECT_NE(loaded.errors().find("did you mean `attention`?"), std::string::npos);
  EXPECT_TRUE(SignatureOf(*loaded.program, "", loaded.diags).ok());  // the only one
}

TEST(Statics, LetsPassThePropertyOn) {
  Loaded loaded(R"(
kernel k(X: f32[M, N], Y: out f32[M, P], Z: f32[Q, R], c: const i32) {
  let half = N / 2
  let other = M / 2
  parallel m in tiles(M, 16) {
    var t: f32[16, half + c] = 0
    let u = X[m, 0..P]
    let v = Z[0..4, other..other + 8]
    Y[m, 0..P] = u + sum(t, axis = 1)[:, None] + sum(v)
  }
})");
  ASSERT_TRUE(loaded.program) << loaded.errors();
  const Signature& sig = *loaded.program->FindSignature("k");
  std::string dims;
  for (const DimInfo& d : sig.dims) dims += d.name + (d.is_static ? "! " : " ");
  EXPECT_EQ(dims, "M N! P! Q R ");
  EXPECT_TRUE(loaded.Specialized("k", {{"N", int64_t{32}}, {"P", int64_t{8}}, {"c", int64_t{4}}}))
      << loaded.errors();
}

// Of three kernels one reads its rows in two loops; a product's loops are pipelined as they are.
TEST(Statics, LengthsOfRowsReadAgainAreTakenIfTheyAreKnown) {
  Loaded loaded(R"(
kernel twice(X: f32[R, C], Z: f32[R, C], Y: out f32[R, C]) {
  parallel r in tiles(R, 8) {
    var top: f32[8] = 0
    for c in tiles(C, 128) { top = max(top, max(X[r, c], axis = 1)) }
    for c in 0..C step 128 { Y[r, c..c + 128] = X[r, c..c + 128] - top[:, None] }
  }
}
kernel once(X: f32[R, C], Z: f32[R, C], Y: out f32[R, C]) {
  parallel r in tiles(R, 8) {
    var top: f32[8] = 0
    for c in tiles(C, 128) { top = max(top, max(X[r, c], axis = 1)) }
    for c in tiles(C, 128) { Y[r, c] = Z[r, c] - top[:, None] }
  }
}
kernel product(X: f32[R, C], Z: f32[C, C], Y: out f32[R, C]) {
  parallel r in tiles(R, 64), n in tiles(C, 64) {
    var top: f32[64] = 0
    for c in tiles(C, 64) { top = max(top, max(X[r, c], axis = 1)) }
    var acc: f32[64, 64] = 0
    for c in tiles(C, 64) { acc += (X[r, c] as tf32) @ (Z[c, n] as tf32) }
    Y[r, n] = acc * top[:, None]
  }
})");
  ASSERT_TRUE(loaded.program) << loaded.errors();
  std::string again;
  for (const char* kernel : {"twice", "once", "product"})
    for (const DimInfo& d : loaded.program->FindSignature(kernel)->dims) {
      EXPECT_FALSE(d.is_static);
      if (d.rows_again) again += std::string(kernel) + " " + d.name + " ";
    }
  EXPECT_EQ(again, "twice C ");
  // Without a value the length is a parameter; with one it is none.
  const auto open = loaded.Specialized("twice", {});
  const auto known = loaded.Specialized("twice", {{"R", int64_t{8}}, {"C", int64_t{256}}});
  ASSERT_TRUE(open && known) << loaded.errors();
  EXPECT_NE(open->param("C"), nullptr);
  EXPECT_NE(known->param("R"), nullptr);
  EXPECT_EQ(known->param("C"), nullptr);
  EXPECT_EQ(known->statics.at("C"), 256);
}

// How often a plain loop turns is constant if it is known and small.
TEST(Statics, FewTurnsAreTakenIfTheyAreKnown) {
  Loaded loaded(R"(
kernel taps(X: f32[T, C], F: f32[K, C], Y: out f32[T, C]) {
  parallel c in tiles(C, 128) {
    for t in 0..T {
      var y: f32[128] = 0
      for k in 0..K { y += X[t + k, c] * F[k, c] }
      Y[t, c] = y
    }
  }
})");
  ASSERT_TRUE(loaded.program) << loaded.errors();
  const Signature& signature = *loaded.program->FindSignature("taps");
  EXPECT_TRUE(signature.TakesValue("K", int64_t{8}));
  EXPECT_FALSE(signature.TakesValue("K", int64_t{9}));
  EXPECT_FALSE(signature.TakesValue("C", int64_t{4}));
  const auto few = loaded.Specialized("taps", {{"K", int64_t{4}}, {"T", int64_t{4096}}});
  ASSERT_TRUE(few) << loaded.errors();
  EXPECT_EQ(few->param("K"), nullptr);
  EXPECT_NE(few->param("T"), nullptr);
}

TEST(Facts, KnownValuesAreCheckedEarly) {
  Loaded loaded(kAttention);
  ASSERT_TRUE(loaded.program);
  const Values good = {{"D", int64_t{64}}, {"H", int64_t{4}}, {"G", int64_t{2}}, {"scale", 0.5}};
  EXPECT_TRUE(loaded.Specialized("attention", good)) << loaded.errors();
  for (const auto& [name, value, text] :
       {std::tuple("G", ConstValue(int64_t{3}), "`where H % G == 0` does not hold: H = 4, G = 3"),
        std::tuple("scale", ConstValue(-1.0), "`where scale > 0` does not hold: scale = -1.0"),
        std::tuple("D", ConstValue(int64_t{80}), "does not hold: D = 80")}) {
    loaded.diags.Clear();
    Values bad = good;
    bad[name] = value;
    EXPECT_FALSE(loaded.Specialized("attention", bad));
    EXPECT_NE(loaded.errors().find(text), std::string::npos) << loaded.errors();
    loaded.diags.Clear();
    EXPECT_FALSE(CheckFacts(*loaded.program, "attention", bad, loaded.diags).ok());
    EXPECT_EQ(loaded.codes(), "F121");
  }
}

TEST(Facts, RemainingOnesReachTheFunction) {
  Loaded loaded(kAttention);
  const auto fn = loaded.Specialized("attention", {{"D", int64_t{64}}});
  ASSERT_TRUE(fn) << loaded.errors();
  ASSERT_EQ(fn->facts.size(), 1u);  // D is decided, scale is floating point
  EXPECT_EQ(ToText(fn->facts[0].condition), "((H % G) == 0)");
  EXPECT_EQ(fn->statics, (Bindings{{"BKV", 64}, {"BQ", 128}, {"D", 64}, {"causal", 0}}));
}

TEST(Tunes, DependOnOtherTunes) {
  Loaded loaded(kAttention);
  const auto fn = loaded.Specialized("attention", {{"D", int64_t{64}}, {"BQ", int64_t{192}}});
  ASSERT_TRUE(fn) << loaded.errors();
  EXPECT_EQ(fn->statics.at("BKV"), 96);
}

TEST(Program, ImportedNamesAreVisible) {
  const ImportResolver resolver = [](const std::string& name) -> std::optional<ImportedText> {
    if (name == "lib")
      return ImportedText{"lib.tile",
                          "import \"deep\"\nconst TWO = ONE + 1\n"
                          "fn twice(x: f32[N]) -> f32[N] {\n  return x * TWO\n}\n"
                          "kernel other(Y: out f32[N]) {\n  parallel n in 0..N {\n"
                          "    Y[n] = 1\n  }\n}\n"};
    if (name == "deep") return ImportedText{"deep.tile", "const ONE = 1\n"};
    return std::nullopt;
  };
  const std::string text =
      "import \"lib\"\nkernel k(X: f32[N], Y: out f32[N]) {\n  parallel n in tiles(N, TWO * 8) {\n"
      "    Y[n] = twice(X[n])\n  }\n}\n";
  Loaded loaded(text, "test.tile", resolver);
  ASSERT_TRUE(loaded.program) << loaded.errors();
  EXPECT_EQ(loaded.program->kernels(), (std::vector<std::string>{"k", "other"}));
  EXPECT_EQ(loaded.program->own_kernels(), (std::vector<std::string>{"k"}));
  EXPECT_EQ(loaded.program->files().size(), 3u);
  EXPECT_TRUE(loaded.Specialized("k")) << loaded.errors();
  EXPECT_TRUE(loaded.Specialized("other")) << loaded.errors();
  // What `lib` imports stays with `lib`.
  Loaded nosy(text + "const X = ONE\n", "test.tile", resolver);
  EXPECT_FALSE(nosy.program);
  EXPECT_EQ(nosy.codes(), "F107");
}

TEST(Program, KernelsOverDtypesAreSeveral) {
  Loaded loaded(R"(
kernel f<T in {bf16, f32}, U in {f16}>(X: T[N], bias: optional U[N], Y: out T[N]) {
  parallel n in tiles(N, 64) {
    var y = X[n] as f32
    if given(bias) {
      y += bias[n] as f32
    }
    Y[n] = y as T
  }
}
)");
  ASSERT_TRUE(loaded.program) << loaded.errors();
  EXPECT_EQ(
      loaded.program->kernels(),
      (std::vector<std::string>{"f_bf16_f16", "f_f32_f16", "f_bf16_f16_bias", "f_f32_f16_bias"}));
  const Signature* without = loaded.program->FindSignature("f_f32_f16");
  const Signature* with = loaded.program->FindSignature("f_bf16_f16_bias");
  ASSERT_TRUE(without && with);
  ASSERT_EQ(without->params.size(), 2u);  // what is absent is no parameter
  EXPECT_EQ(without->params[0].dtype, ir::DType::kF32);
  ASSERT_EQ(with->params.size(), 3u);
  EXPECT_EQ(with->params[0].dtype, ir::DType::kBF16);
  EXPECT_EQ(with->params[1].dtype, ir::DType::kF16);
  const std::string text = loaded.Ir("f_f32_f16", {{"N", int64_t{100}}});
  EXPECT_EQ(text.find(" = add %y"), std::string::npos) << text;  // and costs nothing
  EXPECT_NE(loaded.Ir("f_f32_f16_bias", {{"N", int64_t{100}}}).find(" = add %y"),
            std::string::npos);
}

constexpr char kPattern[] = R"(
kernel mapped<f: fn, T in {bf16, f32}>(X: T[M, N], Y: out f32[M, N], by: f32) {
  parallel m in tiles(M, 8), n in tiles(N, 64) {
    Y[m, n] = f(X[m, n] as f32, m.index)
  }
}
)";

TEST(Program, FunctionsOfAPatternBringTheirParameters) {
  Loaded loaded(std::string(kPattern) + R"(
fn square(x: f32[A, B], row: i32[A]) -> f32[A, B] { return x * x }
fn shifted(x: f32[A, B], row: i32[A], shift: f32[M], by: f32) -> f32[A, B] {
  return x + (shift[row] * by)[:, None]
}
kernel squares = mapped<f = square>
kernel moved = mapped<f = shifted, T = f32>
)");
  ASSERT_TRUE(loaded.program) << loaded.errors();
  // The pattern is no kernel; a dtype that is not chosen makes two.
  EXPECT_EQ(loaded.program->kernels(),
            (std::vector<std::string>{"squares_bf16", "squares_f32", "moved"}));
  EXPECT_EQ(loaded.program->own_kernels().size(), 3u);
  EXPECT_EQ(loaded.program->FindSignature("squares_f32")->params.size(), 3u);
  const Signature* moved = loaded.program->FindSignature("moved");
  ASSERT_TRUE(moved);
  ASSERT_EQ(moved->params.size(), 4u);  // `by` is the pattern's, `shift` is new
  EXPECT_EQ(moved->params[3].name, "shift");
  const std::string text = loaded.Ir("moved", {{"M", int64_t{20}}, {"N", int64_t{100}}});
  EXPECT_NE(text.find("shift"), std::string::npos) << text;
}

TEST(Program, APatternMayBeImported) {
  const ImportResolver resolver = [](const std::string& name) -> std::optional<ImportedText> {
    if (name != "lib") return std::nullopt;
    // `half` and `HALF` of the library are not those of the file.
    return ImportedText{"lib.tile", std::string(kPattern) + R"(
const HALF = 0.5
fn half(x: f32[A, B], row: i32[A]) -> f32[A, B] { return x * HALF }
kernel halves = mapped<f = half, T = f32>
)"};
  };
  Loaded loaded(R"(
import "lib"
const HALF = 0.25
fn half(x: f32[A, B], row: i32[A]) -> f32[A, B] { return x * HALF }
kernel quarters = mapped<f = half, T = f32>
)",
                "test.tile", resolver);
  ASSERT_TRUE(loaded.program) << loaded.errors();
  EXPECT_EQ(loaded.program->own_kernels(), (std::vector<std::string>{"quarters"}));
  const std::map<std::string, ConstValue> dims = {{"M", int64_t{20}}, {"N", int64_t{100}}};
  EXPECT_NE(loaded.Ir("quarters", dims).find("0.25"), std::string::npos);
  EXPECT_EQ(loaded.Ir("quarters", dims).find("0.5"), std::string::npos);
  EXPECT_NE(loaded.Ir("halves", dims).find("0.5"), std::string::npos);
}

TEST(Program, MissingFileIsReported) {
  SourceMap sources;
  DiagSink diags;
  EXPECT_FALSE(Program::Load(sources, "/nowhere/x.tile", {}, diags).ok());
  ASSERT_EQ(diags.all().size(), 1u);
  EXPECT_STREQ(diags.all()[0].def->code, "F101");
}

}  // namespace
}  // namespace tilec::frontend
