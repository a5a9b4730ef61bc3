// SPDX-License-Identifier: Apache-2.0
#include "ir/text.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <random>

#include "ir/diagnostics.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {
namespace {

void ExpectRoundTrip(const Function& fn) {
  const std::string first = Print(fn);
  DiagSink diags;
  Result<Function> again = ParseFunction(first, diags);
  ASSERT_TRUE(again.ok()) << Messages(diags) << first;
  EXPECT_EQ(Print(*again), first);
}

AttrValue SampleAttr(AttrKind kind, int variant) {
  switch (kind) {
    case AttrKind::kNone:
    case AttrKind::kInt: return int64_t{variant * 7 - 3};
    case AttrKind::kNumber:
      return variant % 2 ? AttrValue(0.1 * variant) : AttrValue(int64_t{variant});
    case AttrKind::kInts:
      return variant % 2 ? std::vector<int64_t>{} : std::vector<int64_t>{1, -2, variant};
    case AttrKind::kString: return std::string("a \"b\"\n\\ \x01 //") + std::to_string(variant);
  }
  return int64_t{0};
}

// One of each row, with every arity the row admits up to four, every attribute, and regions. The
// text form does not depend on types, so any types do.
TEST(Text, EveryOpRoundTrips) {
  for (const OpInfo& info : AllOps()) {
    for (int variant = 0; variant < 4; ++variant) {
      Function fn;
      fn.name = "f";
      fn.level = Level::kWarp;
      const LayoutId layout = fn.Intern(BlockedLayout({64}, 2, 128));
      Param p;
      p.kind = ParamKind::kTensor;
      p.name = "A";
      p.dims = {Expr::Name("N"), Expr::Make(Expr::Op::kMin, Expr::Name("K"), Expr::Const(3))};
      const ValueId a = fn.AddParam(p, Type::Tensor(DType::kBF16, 2));
      Builder b(fn, fn.body);
      const int most = info.max_operands() == kMany ? 4 : info.max_operands();
      const int operands = std::min(most, info.min_operands() + variant);
      const int results = info.results == kMany ? variant : info.results;
      const Type types[] = {Type::Tile(DType::kF32, {64}, layout), Type::Scalar(DType::kI64),
                            Type::Smem(DType::kF16, {64, 64}, {64, 64, 64, 128}, 3), Type::Mbar(2)};
      std::vector<Type> result_types;
      for (int i = 0; i < results; ++i) result_types.push_back(types[(i + variant) % 4]);
      Attrs attrs;
      for (const AttrSpec& spec : info.attrs)
        if (spec.name && !(spec.optional && variant == 0))
          attrs.emplace_back(spec.name, SampleAttr(spec.kind, variant));
      const OpId op = b.Add(info.kind, std::vector<ValueId>(static_cast<size_t>(operands), a),
                            std::move(result_types), std::move(attrs));
      for (int r = 0; r < info.regions; ++r) {
        const BlockId block = fn.AddBlock(op);
        fn.ops[op].regions.push_back(block);
        if (variant > 0) fn.AddArg(block, Type::Counter(), variant > 1 ? "pos" : "");
        Builder(fn, block).Yield({a});
      }
      b.Int(1);  // the next line begins with a name
      SCOPED_TRACE(info.mnemonic);
      ExpectRoundTrip(fn);
    }
  }
}

TEST(Text, NumbersKeepTheirBits) {
  const double samples[] = {0.0,
                            -0.0,
                            1.0,
                            0.1,
                            1e300,
                            5e-324,
                            -2.5,
                            1.0 / 3,
                            123456789012345.0,
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity()};
  for (double v : samples) {
    Function fn;
    fn.name = "f";
    Builder(fn, fn.body).Constant(Type::Scalar(DType::kF64), v);
    DiagSink diags;
    Result<Function> again = ParseFunction(Print(fn), diags);
    ASSERT_TRUE(again.ok()) << Messages(diags);
    const AttrValue& value = *again->ops[OpId(0)].attr("value");
    ASSERT_TRUE(std::holds_alternative<double>(value)) << v;
    EXPECT_EQ(std::get<double>(value), v);
    EXPECT_EQ(std::signbit(std::get<double>(value)), std::signbit(v));
  }
  Function fn;
  fn.name = "f";
  Builder(fn, fn.body).Constant(Type::Scalar(DType::kF64), std::nan(""));
  DiagSink diags;
  Result<Function> again = ParseFunction(Print(fn), diags);
  ASSERT_TRUE(again.ok()) << Messages(diags);
  EXPECT_TRUE(std::isnan(again->ops[OpId(0)].number("value")));
}

TEST(Text, HeaderRoundTrips) {
  Function fn = Parsed(R"(func @gemm warp {
  layout #0 = rank 2 t(4:1*2 8:0*1 4:0*16) r(2:1*1 2:0*8 32:1*8)
  param tensor %A: tensor<bf16, 3> in [B, M, K] align=16 stride_align=8 contiguous=0 strided_any
  param tensor %C: tensor<f32, 2> out [M, min(N, 4)] align=128 stride_align=16 contiguous=1
  param tensor %D: tensor<bf16, 2> in [M, 256] align=16 stride_align=16 contiguous=1
  param dim %B: i64
  param dim %M: i64
  param dim %K: i64
  param dim %N: i64
  param scalar %scale: f32
  fact "K even \"yes\"" = ((K % 2) == 0)
  static BM = 128
  launch warps=12 smem=231424 grid=(ceildiv(M, 128) * B)
  map %A dims=[2, 1] box=[64, 128] swizzle=128
  map %D dims=[1, 0] box=[64, 32, 4] swizzle=128 panel=64
  body {
  }
}
)");
  EXPECT_EQ(fn.params.size(), 8u);
  EXPECT_TRUE(fn.params[0].strided_any);
  EXPECT_FALSE(fn.params[0].facts.last_contiguous);
  EXPECT_EQ(fn.params[0].facts.stride_align_bytes, 8);
  EXPECT_EQ(fn.params[1].direction, Direction::kOut);
  EXPECT_EQ(fn.facts[0].text, "K even \"yes\"");
  EXPECT_EQ(fn.statics.at("BM"), 128);
  EXPECT_EQ(fn.launch.warps, 12);
  EXPECT_EQ(fn.launch.smem_bytes, 231424);
  ASSERT_EQ(fn.launch.maps.size(), 2u);
  EXPECT_EQ(fn.launch.maps[1].panel, 64);
  EXPECT_EQ(fn.launch.maps[0].box, (std::vector<int64_t>{64, 128}));
  EXPECT_EQ(fn.layouts[LayoutId(0)].threads(), 128);
  EXPECT_EQ(*Eval(fn.launch.grid, {{"M", 200}, {"B", 3}}), 6);
  ExpectRoundTrip(fn);
}

TEST(Text, RepeatedHintsGetDistinctNames) {
  Function fn;
  fn.name = "f";
  Builder b(fn, fn.body);
  for (const char* hint : {"a", "a", "a.1", "7", "x y", "", "a"}) {
    const ValueId v = b.Int(1);
    fn.values[v].name = hint;
  }
  const std::string text = Print(fn);
  for (const char* name : {"%a =", "%a.1 =", "%a.1.1 =", "%v7 =", "%x_y =", "%0 =", "%a.2 ="})
    EXPECT_NE(text.find(name), std::string::npos) << name << "\n" << text;
  ExpectRoundTrip(fn);
}

TEST(Text, CommentsCarryPlaces) {
  SourceMap sources;
  const int32_t file = sources.Add("k.tile", "line one\nlet x = 1\n");
  Function fn;
  fn.name = "f";
  Builder b(fn, fn.body);
  b.SetSpan({file, 13, 14});
  b.Int(1);
  const std::string text = Print(fn, {&sources});
  EXPECT_NE(text.find("// k.tile:2:5"), std::string::npos) << text;
  DiagSink diags;
  Result<Function> again = ParseFunction(text, diags);
  ASSERT_TRUE(again.ok()) << Messages(diags);
  EXPECT_EQ(Print(*again), Print(fn));
}

TEST(Text, ErrorsHaveACodeAndAPlace) {
  struct Case {
    const char* text;
    const char* code;
    const char* says;
  };
  const Case cases[] = {
      {"func @f tile { body { %0 = frobnicate : f32 } }", "I203", "frobnicate"},
      {"func @f tile { body { %0 = neg %x : f32 } }", "I204", "%x"},
      {"func @f tile { body { %0 = constant {value = 1} : i64 %0 = constant {value = 1} : i64 } }",
       "I205", "%0"},
      {"func @f tile { body { %0 = constant {value = 1} : f31 } }", "I206", "f31"},
      {"func @f tile { body { %0 = constant {value = 1} : f32[0] } }", "I206", "extent"},
      {"func @f tile { body { %0 = constant {value = 1} : f32[4]#3 } }", "I206", "#3"},
      {"func @f tile { body { %0 = constant {value = 1} : f32[2000000, 2000000] } }", "I202",
       "elements"},
      {"func @f tile { body { %0 = constant {value = 99999999999999999999} : i64 } }", "I201",
       "value"},
      {"func @f tile { body { %0, %1 = constant {value = 1} : i64 } }", "I201", "2 results"},
      {"func @f tile { body {", "I201", "end of the text"},
      {"func @f tile { zork }", "I201", "zork"},
      {"func @f tile { body { assert {message = \"abc } }", "I201", "not closed"},
      {"", "I201", "found 0"},
  };
  for (const Case& c : cases) {
    DiagSink diags;
    EXPECT_FALSE(ParseFunction(c.text, diags).ok()) << c.text;
    ASSERT_EQ(diags.all().size(), 1u) << c.text << Messages(diags);
    EXPECT_STREQ(diags.all()[0].def->code, c.code) << c.text << Messages(diags);
    EXPECT_NE(diags.all()[0].message.find(c.says), std::string::npos) << Messages(diags);
  }
  SourceMap sources;
  const std::string text = "func @f tile {\n  body {\n    %0 = neg %x : f32\n  }\n}\n";
  const int32_t file = sources.Add("crash.ir", text);
  DiagSink diags;
  EXPECT_FALSE(ParseFunction(text, diags, file).ok());
  EXPECT_NE(RenderAll(diags, sources).find("crash.ir:3:14"), std::string::npos)
      << RenderAll(diags, sources);
}

TEST(Text, HostileTextNeverCrashes) {
  std::string deep = "func @f tile { body { %c = constant {value = 1} : bool ";
  for (int i = 0; i < 5000; ++i) deep += "if %c do {";
  DiagSink diags;
  EXPECT_FALSE(ParseFunction(deep, diags).ok());
  EXPECT_EQ(FirstCode(diags), "I202");
  std::string sum = "func @f tile { param tensor %A: tensor<f32, 1> in [1";
  for (int i = 0; i < 100000; ++i) sum += "+1";
  DiagSink more;
  EXPECT_FALSE(ParseFunction(sum + "] align=1 }", more).ok());
  EXPECT_EQ(FirstCode(more), "I202");

  // Random damage to a sound text: a function or a diagnostic, and what parses prints again.
  const std::string sound = Print(Parsed(R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [N, 8] align=16 stride_align=16 contiguous=1
  param tensor %C: tensor<f32, 1> out [N] align=16 stride_align=16 contiguous=1
  param dim %N: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %N {steps = [64]} do (%i: i64) {
      %z = constant {value = 0.5} : f32[64, 8]
      %t = load %A, %i, %0 {modes = "rr", sizes = [64, 8]} : f32[64, 8]
      %s = add %t, %z : f32[64, 8]
      %r = reduce %s {kind = "sum", axis = 1} : f32[64]
      store %C, %r, %i, %N {modes = "r", sizes = [64]}
    }
  }
}
)"));
  std::mt19937 random(7);
  const std::string alphabet = "%#{}[]()=,:\"\\ x1-.\n";
  for (int round = 0; round < 3000; ++round) {
    std::string text = sound;
    for (int edits = 0; edits < 3; ++edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = alphabet[random() % alphabet.size()]; break;
        case 1: text.erase(at, 1 + random() % 5); break;
        case 2: text.insert(at, 1, alphabet[random() % alphabet.size()]); break;
      }
    }
    DiagSink sink;
    Result<Function> fn = ParseFunction(text, sink);
    if (!fn.ok()) {
      EXPECT_TRUE(sink.has_errors());
      continue;
    }
    ExpectRoundTrip(*fn);
    Result<> verified = Verify(*fn, sink);  // must not crash either way
    EXPECT_EQ(verified.ok(), !sink.has_errors());
  }
}

// 0: the assembler decides how many registers a thread has (ir/lower/pressure.h).
TEST(Text, CtasOfAnSmRoundTrip) {
  for (const int64_t ctas : {0, 2}) {
    const std::string text = fmt::format(
        "func @f warp {{\n  launch warps=4 smem=0 ctas={} grid=1\n  body {{\n  }}\n}}\n", ctas);
    const Function fn = Parsed(text);
    EXPECT_EQ(fn.launch.ctas_per_sm, ctas);
    EXPECT_EQ(Print(fn), text);
  }
}

}  // namespace
}  // namespace tilec::ir
