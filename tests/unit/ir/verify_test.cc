// Each invariant of ir/verify.cc is tripped by a test here.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <fmt/format.h>

#include "tests/unit/ir/test_util.h"
#include "tests/unit/ir/verify_texts.h"

namespace tilec::ir {

namespace {

TEST(Verify, AcceptsSoundTileIr) {
  Parsed(Tile(R"(
    %x = load %A, %z, %z {modes = "rr", sizes = [4, 8]} : f32[4, 8]
    %x2 = load %A, %g, %z, %s {modes = "gr", sizes = [4, 8], has_fill = 1} : f32[4, 8]
    %x3 = load %A, %z, %z {modes = "sr", sizes = [1, 8]} : f32[8]
    %x4 = load %A, %z, %z {modes = "ss", sizes = [1, 1]} : f32
    store %O, %x2, %z, %N, %z, %N {modes = "rr", sizes = [4, 8]}
    atomic %O, %x2, %g, %z, %N {kind = "add", modes = "gr", sizes = [4, 8]}
    %x5 = atomic %O, %x2, %g, %z, %N {kind = "add", modes = "gr", sizes = [4, 8]} : f32[4, 8]
    %x6 = load %A, %g, %g {modes = "gp", sizes = [4, 4]} : f32[4]
    parallel %z, %N {steps = [4]} do (%m: i64) {
      %r = for %z, %m, %t {step = 1} : f32[4, 8] do (%k: i64, %c: f32[4, 8]) {
        yield %c
      }
      %w = while %r : f32[4, 8] do (%v: f32[4, 8]) {
        yield %p, %v
      } do (%u: f32[4, 8]) {
        yield %u
      }
    }
)"));
}

TEST(Verify, FormAndTypesOfTileOps) {
  struct Case {
    const char* line;
    const char* code;
    const char* says;
  };
  const Case cases[] = {
      // F1: operands, results, attributes
      {"%r = neg : f32[4, 8]", "I211", "0 operands"},
      {"%r = add %t : f32[4, 8]", "I211", "1 operands"},
      {"neg %t", "I211", "0 results"},
      {"%r = constant : f32", "I211", "`value` is missing"},
      {"%r = constant {value = \"x\"} : f32", "I211", "wrong kind"},
      {"%r = neg %t {axis = 1} : f32[4, 8]", "I211", "not in the op's row"},
      {"if %p", "I211", "0 regions"},
      // F2: ranges of attributes
      {"%r = constant {value = 300} : i8", "I211", "300 does not fit i8"},
      {"%r = constant {value = 1.5} : i32", "I211", "not an integer"},
      {"%r = constant {value = 2} : bool", "I211", "2 does not fit bool"},
      {"%r = cmp %t, %t {pred = \"is\"} : bool[4, 8]", "I211", "pred"},
      {"%r = reduce %t {kind = \"mean\", axis = 0} : f32[8]", "I211", "mean"},
      {"%r = reduce %t {kind = \"sum\", axis = 2} : f32[8]", "I211", "axis 2"},
      {"%r = reduce %t, %t {kind = \"sum\", axis = 0} : f32[8]", "I211", "only a max"},
      {"%r = transpose %t {perm = [0, 0]} : f32[8, 4]", "I211", "permutation"},
      {"%r = broadcast %t {axes = [1, 0]} : f32[8, 4]", "I211", "ascend"},
      {"%r = scan %t {kind = \"any\", axis = 0} : f32[4, 8]", "I211", "any"},
      {"%r = rearrange %t {first = 0, strides = [8]} : f32[4, 8]", "I211", "1 strides"},
      {"%r = rearrange %t {first = 999999999, strides = [8, 1]} : f32[4, 8]", "I211", "away"},
      {"%r = argreduce %t {kind = \"max\", axis = 0} : i32[8]", "I211", "argmax"},
      {"%r = load %A, %z, %z {modes = \"rx\", sizes = [4, 8]} : f32[4, 8]", "I211", "`x`"},
      {"%r = load %A, %z {modes = \"rr\", sizes = [4, 8]} : f32[4, 8]", "I211", "missing"},
      {"%r = load %A, %z, %z, %z {modes = \"rr\", sizes = [4, 8]} : f32[4, 8]", "I211",
       "have a meaning"},
      {"%r = load %A, %z, %z {modes = \"r\", sizes = [4]} : f32[4]", "I211", "rank 2"},
      {"%r = load %A, %g, %g {modes = \"gp\", sizes = [4, 8]} : f32[4]", "I211", "paired with 4"},
      {"%r = load %A, %g, %g {modes = \"pg\", sizes = [4, 4]} : f32[4]", "I211", "paired with 0"},
      {"atomic %O, %t, %z, %N, %z, %N {kind = \"mul\", modes = \"rr\", sizes = [4, 8]}", "I211",
       "mul"},
      // T1: types
      {"%r = add %t, %h : f32[4, 8]", "I212", "f32 and f16"},
      {"%x = constant {value = 0.0} : f32[8, 4]\n%r = add %t, %x : f32[4, 8]", "I212", "shapes"},
      {"%r = add %b, %b : bool[4, 8]", "I212", "numbers"},
      {"%r = exp2 %n : i32[4, 8]", "I212", "floats"},
      {"%r = mod %t, %t : f32[4, 8]", "I212", "integers"},
      {"%r = shl %t, %t : f32[4, 8]", "I212", "integers"},
      {"%r = not %t : f32[4, 8]", "I212", "bool or integers"},
      {"%r = and %t, %t : f32[4, 8]", "I212", "bool or integers"},
      {"%r = div_rn %n, %n : i32[4, 8]", "I212", "floats"},
      {"%r = fma %n, %n, %n : i32[4, 8]", "I212", "floats"},
      {"%r = neg %t : f16[4, 8]", "I212", "not f32"},
      {"%r = cmp %t, %t {pred = \"lt\"} : f32[4, 8]", "I212", "not bool"},
      {"%r = cmp %b, %b {pred = \"lt\"} : bool[4, 8]", "I212", "no order"},
      {"%r = select %n, %t, %t : f32[4, 8]", "I212", "condition"},
      {"%r = select %b, %t, %h : f32[4, 8]", "I212", "chooses"},
      {"%r = bitcast %t : i16[4, 8]", "I212", "size"},
      {"%r = neg %A : f32[4, 8]", "I212", "not a tile"},
      {"%r = iota %i : i32[4]", "I212", "start"},
      {"%r = iota %z : i64[4]", "I212", "i32[n]"},
      {"%r = broadcast %t {axes = [0, 1]} : f32[4, 9]", "I212", "dim 1"},
      {"%r = reshape %t : f32[8, 4]", "I212", "extent 1"},
      {"%r = transpose %t {perm = [1, 0]} : f32[4, 8]", "I212", "dim 0"},
      {"%r = reduce %t {kind = \"sum\", axis = 1} : f32[8]", "I212", "without dim 1"},
      {"%r = reduce %t {kind = \"any\", axis = 1} : f32[4]", "I212", "takes bool"},
      {"%r = reduce %t, %t {kind = \"max\", axis = 1} : f32[4]", "I212", "the guard is"},
      {"%r = argreduce %t {kind = \"argmax\", axis = 1} : i64[4]", "I212", "not i32"},
      {"%r = dot %t, %t, %t : f32[4, 8]", "I212", "chain"},
      {"%r = load %A, %z, %z {modes = \"rr\", sizes = [4, 8]} : f16[4, 8]", "I212", "the access"},
      {"%r = load %A, %i, %z {modes = \"rr\", sizes = [4, 8]} : f32[4, 8]", "I212",
       "start of a range"},
      {"%r = load %A, %t, %z {modes = \"gr\", sizes = [4, 8]} : f32[4, 8]", "I212", "positions"},
      {"%r = load %t, %z, %z {modes = \"rr\", sizes = [4, 8]} : f32[4, 8]", "I212", "not a tensor"},
      {"store %A, %t, %z, %N, %z, %N {modes = \"rr\", sizes = [4, 8]}", "I212", "read-only"},
      {"atomic %O, %t, %z, %N, %z, %N {kind = \"xor\", modes = \"rr\", sizes = [4, 8]}", "I212",
       "xor"},
      {"%r = atomic %O, %t, %z, %N, %z, %N {kind = \"add\", modes = \"rr\", sizes = [4, 8]} : "
       "f32[8, 4]",
       "I212", "it finds f32[8, 4]"},
      {"%r = atomic %O, %t, %z, %N, %z, %N {kind = \"max\", modes = \"rr\", sizes = [4, 8]} : "
       "f32[4, 8]",
       "I212", "not defined"},
      {"if %t do {\nyield\n} do {\nyield\n}", "I212", "not bool"},
      {"assert %t {message = \"\"}", "I212", "not bool"},
      {"for %i, %z {step = 1} do (%k: i64) {\nyield\n}", "I212", "bound"},
      {"for %z, %z {step = 0} do (%k: i64) {\nyield\n}", "I211", "step of 0"},
      {"for %z, %z {step = 1, narrow = 2} do (%k: i64) {\nyield\n}", "I211", "narrow = 2"},
      // D1: dominance
      {"if %p do {\n%x = neg %t : f32[4, 8]\nyield\n} do {\n%r = neg %x : f32[4, 8]\nyield\n}",
       "I213", "operand 0"},
      {"for %z, %z {step = 1} do (%k: i64) {\nyield\n}\nprint %k {text = \"\"}", "I213",
       "operand 0"},
      // S3–S5: structure
      {"yield", "I210", "nowhere else"},
      {"if %p do {\n} do {\nyield\n}", "I210", "does not end in a yield"},
      {"if %p do {\nyield\nyield\n} do {\nyield\n}", "I210", "nowhere else"},
      {"%r = if %p : f32[4, 8] do {\nyield %t\n} do {\nyield\n}", "I210", "yields 0 values"},
      {"%r = if %p : f32[4, 8] do {\nyield %t\n} do {\nyield %h\n}", "I210", "f16"},
      {"%r = for %z, %z, %t {step = 1} : f32[4, 8] do (%k: i64) {\nyield %t\n}", "I210",
       "arguments"},
      {"%r = for %z, %z, %t {step = 1} : f32[4, 8] do (%k: i64, %c: f16[4, 8]) {\nyield %t\n}",
       "I210", "carried"},
      {"for %z, %z {step = 1} do (%k: i32) {\nyield\n}", "I210", "position"},
      {"%r = while %t : f32[4, 8] do (%v: f32[4, 8]) {\nyield %v, %v\n} do (%u: f32[4, 8]) "
       "{\nyield %u\n}",
       "I210", "bool first"},
      {"if %p do {\nparallel %z, %N {steps = [4]} do (%m: i64) {\n}\nyield\n} do {\nyield\n}",
       "I210", "inside another op"},
      {"parallel %z, %N {steps = [4]} do (%m: i64) {\n}\nparallel %z, %N {steps = [4]} do (%m2: "
       "i64) {\n}",
       "I210", "a kernel has one"},
      {"parallel %z, %N {steps = [4, 4]} do (%m: i64) {\n}", "I210", "2 steps"},
      {"parallel %z, %N {steps = [4]} do (%m: i64) {\nyield %z\n}", "I210", "nobody takes"},
      {"parallel %z, %N {steps = [0]} do (%m: i64) {\n}", "I211", "step of 0"},
      {"for %z, %z {step = 1, narrow = 2} do (%k: i64) {\nyield\n}", "I211", "narrow = 2"},
      // L1: level
      {"%r = program_id : i64", "I214", "warp op"},
  };
  for (const Case& c : cases) ExpectTextRejected(Tile(std::string(c.line) + "\n"), c.code, c.says);
  // Dots of other types.
  ExpectTextRejected(
      Tile(
          "%k = transpose %h {perm = [1, 0]} : f16[8, 4]\n%c = constant {value = 0.0} : f16[4, 4]\n"
          "%r = dot %h, %k, %c : f16[4, 4]\n"),
      "I212", "accumulates in f32");
  ExpectTextRejected(
      Tile(
          "%k = transpose %h {perm = [1, 0]} : f16[8, 4]\n%c = constant {value = 0.0} : f32[4, 4]\n"
          "%r = dot %h, %k, %c {promote = 64} : f32[4, 4]\n"),
      "I211", "fp8");
  ExpectTextRejected(
      "func @f tile {\n  layout #0 = rank 1 t(32:0*1) r()\n  body {\n    %0 = constant {value = "
      "0.0} : f32[32]#0\n  }\n}\n",
      "I214", "warp level");
}

TEST(Verify, Header) {
  const auto with = [](const std::string& lines) {
    return "func @f tile {\n" + lines + "  body {\n  }\n}\n";
  };
  ExpectTextRejected(with("  param dim %N: i32\n"), "I217", "not i64");
  ExpectTextRejected(with("  param scalar %s: f32[4]\n"), "I217", "scalar `s`");
  ExpectTextRejected(
      with("  param tensor %A: tensor<f32, 2> in [4] align=1 stride_align=1 contiguous=1\n"),
      "I217", "1 dims");
  ExpectTextRejected(
      with("  param tensor %A: tensor<f32, 1> in [K] align=1 stride_align=1 contiguous=1\n"),
      "I217", "`K`");
  ExpectTextRejected(with("  fact \"K > 0\" = (K > 0)\n"), "I217", "`K`");
  Function twice = Parsed(with("  param dim %N: i64\n"));
  Param p = twice.params[0];
  twice.AddParam(p, Type::Scalar(DType::kI64));
  ExpectRejected(twice, "I217", "two parameters", "names");
  Function shared = Parsed(with("  param dim %N: i64\n"));
  shared.params.push_back(shared.params[0]);
  shared.params.back().name = "M";
  ExpectRejected(shared, "I217", "shares its value", "values");
}

TEST(Verify, StructureOfIds) {
  const Function sound = Parsed(Tile("%r = neg %t : f32[4, 8]\n"));
  const OpId last(sound.ops.size() - 1);
  Function fn = sound;
  fn.blocks[fn.body].ops.push_back(last);
  ExpectRejected(fn, "I210", "two places", "an op twice");
  fn = sound;
  fn.ops[last].block = BlockId(7);
  ExpectRejected(fn, "I210", "does not know its block", "block");
  fn = sound;
  fn.values[fn.ops[last].results[0]].def = OpId(0);
  ExpectRejected(fn, "I210", "does not know this op", "result");
  fn = sound;
  fn.ops[last].operands[0] = ValueId(9999);
  ExpectRejected(fn, "I213", "no value", "operand");
  fn = sound;
  fn.blocks[fn.body].ops.push_back(OpId(999));
  ExpectRejected(fn, "I217", "does not exist", "op id");
  fn = sound;
  std::swap(fn.blocks[fn.body].ops[2], fn.blocks[fn.body].ops.back());
  ExpectRejected(fn, "I213", "not defined above", "order");
}

TEST(Verify, ReportsShowTheOpAndAreFew) {
  std::string body;
  for (int i = 0; i < 50; ++i) body += fmt::format("%x{} = neg %n : f32[4, 8]\n", i);
  DiagSink diags;
  Result<Function> fn = ParseFunction(Tile(body), diags);
  ASSERT_TRUE(fn.ok());
  EXPECT_FALSE(Verify(*fn, diags).ok());
  EXPECT_LE(diags.all().size(), 10u);
  EXPECT_NE(Messages(diags).find("in @f: %x0 = neg %n : f32[4, 8]"), std::string::npos)
      << Messages(diags);
}

TEST(Verify, DepthIsBounded) {
  Function fn;
  fn.name = "deep";
  BlockId block = fn.body;
  const ValueId p = Builder(fn, block).Int(1, DType::kBool);
  for (int i = 0; i < 3000; ++i) {
    Builder b(fn, block);
    const OpId op = b.Add(OpKind::kIf, {p}, {});
    for (int r = 0; r < 2; ++r) {
      const BlockId region = fn.AddBlock(op);
      fn.ops[op].regions.push_back(region);
      if (r == 1)
        Builder(fn, region).Yield({});
      else
        block = region;
    }
  }
  ExpectRejected(fn, "I210", "deeper", "nesting");
}

}  // namespace

}  // namespace tilec::ir
