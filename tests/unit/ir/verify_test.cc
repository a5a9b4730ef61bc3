// Each invariant of ir/verify.cc is tripped by a test here.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "tests/unit/ir/test_util.h"

namespace tilec::ir {
namespace {

void ExpectRejected(const Function& fn, const std::string& code, const std::string& says,
                    const std::string& what) {
  DiagSink diags;
  EXPECT_FALSE(Verify(fn, diags).ok()) << what;
  ASSERT_TRUE(diags.has_errors()) << what;
  EXPECT_STREQ(diags.all()[0].def->code, code.c_str()) << what << "\n" << Messages(diags);
  EXPECT_NE(diags.all()[0].message.find(says), std::string::npos) << what << "\n"
                                                                  << Messages(diags);
}

void ExpectTextRejected(const std::string& text, const std::string& code, const std::string& says) {
  DiagSink diags;
  Result<Function> fn = ParseFunction(text, diags);
  ASSERT_TRUE(fn.ok()) << Messages(diags) << text;
  ExpectRejected(*fn, code, says, text);
}

// Body lines of a tile function with some values at hand.
std::string Tile(const std::string& body) {
  return R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [N, 8] align=1 stride_align=1 contiguous=1
  param tensor %O: tensor<f32, 2> out [N, 8] align=1 stride_align=1 contiguous=1
  param dim %N: i64
  param scalar %s: f32
  body {
    %z = constant {value = 0} : i64
    %i = constant {value = 1} : i32
    %t = constant {value = 0.0} : f32[4, 8]
    %h = constant {value = 0.0} : f16[4, 8]
    %n = constant {value = 0} : i32[4, 8]
    %b = constant {value = 0} : bool[4, 8]
    %p = constant {value = 0} : bool
    %g = constant {value = 0} : i32[4]
)" + body +
         "  }\n}\n";
}

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

// Body lines of a warp function of four warps: layouts #0 (rows), #1 = its slice, #2 over 64
// threads, #3 a permuted #0, #4 the accumulator of 64 x 64, #5 another rank-2 layout.
std::string Warp(const std::string& body, const std::string& header = "") {
  const Layout rows = BlockedLayout({64, 64}, 2, 128);
  const Layout slice = SliceLayout(rows, 1);
  const Layout half = BlockedLayout({64, 64}, 2, 64);
  const Layout turned = PermuteLayout(rows, {1, 0});
  const Layout acc = AccumulatorLayout(64, 64, 1, WgSplit::kM);
  const Layout other = BlockedLayout({64, 64}, 4, 128);
  std::string text = "func @f warp {\n";
  int n = 0;
  for (const Layout* l : {&rows, &slice, &half, &turned, &acc, &other})
    text += fmt::format("  layout #{} = rank {} {}\n", n++, l->rank, ToText(*l));
  return text +
         R"(  param tensor %A: tensor<f16, 2> in [N, 64] align=128 stride_align=128 contiguous=1
  param tensor %O: tensor<f32, 2> out [N, 64] align=128 stride_align=128 contiguous=1
  param dim %N: i64
  launch warps=4 smem=32768 grid=N
)" + header +
         R"(  body {
    %z = constant {value = 0} : i64
    %i = constant {value = 0} : i32
    %t = constant {value = 0.0} : f32[64, 64]#0
    %v = constant {value = 0.0} : f32[64]#1
    %acc = constant {value = 0.0} : f32[64, 64]#4
)" + body +
         "  }\n}\n";
}

constexpr const char* kMap = "  map %A dims=[1, 0] box=[64, 64] swizzle=128\n";
const std::string kBuffers =
    "%s = smem_alloc {offset = 0} : smem<f16[64, 64], rows=64, cols=64, panel=64, swizzle=128, "
    "depth=2>\n"
    "%m = mbar_alloc {offset = 16384} : mbar<2>\n";

TEST(Verify, AcceptsSoundWarpIr) {
  Parsed(Warp(kBuffers + R"(
    elect do {
      mbar_init %m {count = 1}
      fence_mbar_init
      mbar_expect %m, %i {bytes = 8192}
      tma_load %s, %m, %z, %z, %i {map = 0, offset = 0, slotted = 1}
    }
    mbar_wait %m, %i, %i
    %b = warp_broadcast %v {axes = [0]} : f32[64, 64]#0
    %x = add %t, %b : f32[64, 64]#0
    %r = warp_reduce %x {kind = "max", axis = 1, scratch = 20480} : f32[64]#1
    %tt = warp_transpose %x {perm = [1, 0]} : f32[64, 64]#3
    %c = convert %x {scratch = 0} : f32[64, 64]#5
    %f = mma_fence %acc : f32[64, 64]#4
    %d = mma %f, %s, %s {k = 64, split = "m", trans_a = 0, trans_b = 1, zero = 1} : f32[64, 64]#4
    mma_commit
    %w = mma_wait %d {pending = 0} : f32[64, 64]#4
    gstore %O, %w, %z, %N, %z, %N {modes = "rr", sizes = [64, 64], vector = 2}
    %q = counter {init = 0} : counter
    counter_add %q {by = 1}
    %qq = counter_read %q : i32
    %e = gload_scalar %A, %z, %z : f16
)",
              kMap));
}

// What cp.reduce.async.bulk.tensor has, type by type.
TEST(Verify, ReductionsByTheCopyEngine) {
  const auto text = [](const std::string& dtype, const std::string& kind) {
    return "func @f warp {\n  param tensor %C: tensor<" + dtype +
           R"(, 2> inout [M, N] align=16 stride_align=16 contiguous=1
  param dim %M: i64
  param dim %N: i64
  launch warps=4 smem=32768 grid=N
  map %C dims=[1, 0] box=[16, 16] swizzle=0
  body {
    %z = constant {value = 0} : i64
    %s = smem_alloc {offset = 0} : smem<)" +
           dtype + R"([16, 16], rows=16, cols=16, panel=16, swizzle=0, depth=1>
    elect do {
      tma_store %s, %z, %z {map = 0, offset = 0, kind = ")" +
           kind + "\"}\n    }\n  }\n}\n";
  };
  const std::map<std::string, std::set<std::string>> has = {
      {"f16", {"add", "min", "max"}},
      {"bf16", {"add", "min", "max"}},
      {"f32", {"add"}},
      {"f64", {}},
      {"tf32", {}},
      {"i8", {}},
      {"i16", {}},
      {"i32", {"add", "min", "max", "and", "or", "xor"}},
      {"u32", {"add", "min", "max", "and", "or", "xor"}},
      {"i64", {"min", "max", "and", "or", "xor"}},
      {"u64", {"add", "min", "max", "and", "or", "xor"}},
  };
  for (const auto& [dtype, kinds] : has)
    for (const std::string kind : {"add", "min", "max", "and", "or", "xor"}) {
      const bool bits = kind == "and" || kind == "or" || kind == "xor";
      if (kinds.count(kind))
        Parsed(text(dtype, kind));
      else
        ExpectTextRejected(text(dtype, kind), "I212",
                           bits && (dtype[0] == 'f' || dtype[0] == 'b' || dtype[0] == 't')
                               ? " on "
                               : "the copy engine has no");
    }
}

TEST(Verify, ClustersHaveUpToEightCtas) {
  const auto text = [](int ctas) {
    std::string t = Warp("");
    return t.insert(t.find("grid=N"), fmt::format("cluster={} ", ctas));
  };
  for (int ctas = 1; ctas <= 8; ++ctas) Parsed(text(ctas));
  for (const int ctas : {0, 9, 16}) {
    DiagSink diags;  // the text form says so itself
    EXPECT_FALSE(ParseFunction(text(ctas), diags).ok()) << ctas;
    EXPECT_NE(Messages(diags).find("it must be 1 … 8"), std::string::npos) << Messages(diags);
    Function fn = Parsed(text(2));
    fn.launch.cluster = ctas;
    ExpectRejected(fn, "I217", "1 … 8", fmt::format("clusters of {}", ctas));
  }
}

// What speaks of other CTAs of the cluster needs a cluster.
TEST(Verify, AttributesOfClusters) {
  const auto text = [](int ctas, const std::string& line) {
    std::string t = Warp(kBuffers + line + "\n", kMap);
    return t.insert(t.find("grid=N"), fmt::format("cluster={} ", ctas));
  };
  const auto load = [](int share) {
    return fmt::format(
        "elect do {{\ntma_load %s, %m, %z, %z {{map = 0, offset = 0, share = {}}}\n}}", share);
  };
  const std::string init = "mbar_init %m {count = 1, cluster = 1}",
                    arrive = "mbar_arrive %m {cluster = 1}";
  for (const std::string& line : {init, arrive, load(0)}) Parsed(text(2, line));
  for (const std::string& line : {init, arrive, load(1024)})
    ExpectTextRejected(text(1, line), "I211", "clusters of 1");
  ExpectTextRejected(text(2, "mbar_arrive %m {cluster = 2}"), "I211", "cluster = 2");
  ExpectTextRejected(text(2, "mbar_init %m {count = 1, cluster = -1}"), "I211", "cluster = -1");
  ExpectTextRejected(text(2, load(100)), "I216", "multiple of 128");
  ExpectTextRejected(text(2, load(1024)), "I216", "8192");  // the second part ends beyond
  const auto tile = [](const std::string& grid, const std::string& load) {
    return Tile("%zero = constant {value = 0} : i64\nparallel %zero, %N {steps = [8]" + grid +
                "} do (%row: i64) {\n%l = load %A, %row, %zero {modes = \"rr\", sizes = [4, 8]" +
                load + "} : f32[4, 8]\n}\n");
  };
  Parsed(tile(", cluster = 2", ", shared = 1"));
  ExpectTextRejected(tile("", ", shared = 1"), "I211", "clusters of 1");
  ExpectTextRejected(tile(", cluster = 2", ", shared = 2"), "I211", "shared = 2");
  ExpectTextRejected(tile(", cluster = 9", ""), "I211", "1 … 8");
}

TEST(Verify, WarpOps) {
  struct Case {
    std::string line;
    const char* code;
    const char* says;
  };
  const Case cases[] = {
      // L2, L3
      {"%r = reduce %t {kind = \"sum\", axis = 0} : f32[64]#1", "I214", "tile op"},
      {"%r = load %A, %z, %z {modes = \"rr\", sizes = [64, 64]} : f16[64, 64]#0", "I214",
       "tile op"},
      {"elect do {\n%r = neg %t : f32[64, 64]#0\n}", "I214", "one elected thread"},
      {kBuffers + "tma_load %s, %m, %z, %z {map = 0, offset = 0}", "I214", "outside an elect"},
      // S6
      {"elect do {\nrole {name = \"a\", first_warp = 0, warps = 1, regs = 0} do {\n}\n}", "I210",
       "inside another"},
      {"role {name = \"a\", first_warp = 0, warps = 4, regs = 0} do {\n}\nrole {name = \"b\", "
       "first_warp = 0, warps = 4, regs = 0} do {\n}",
       "I210", "shares warps"},
      {"role {name = \"a\", first_warp = 0, warps = 5, regs = 0} do {\n}", "I211", "[0, 5)"},
      {"role {name = \"a\", first_warp = 0, warps = 4, regs = 23} do {\n}", "I211", "regs"},
      // Y1
      {"%r = constant {value = 0.0} : f32[64, 64]", "I215", "no layout"},
      {"%r = constant {value = 0.0} : f32[64, 64]#1", "I215", "rank 1"},
      {"%r = constant {value = 0.0} : f32[64, 64]#2", "I215", "64 threads"},
      // Y2
      {"%x = constant {value = 0.0} : f32[64, 64]#5\n%r = add %t, %x : f32[64, 64]#0", "I215",
       "layouts must be equal"},
      {"%r = warp_broadcast %v {axes = [1]} : f32[64, 64]#0", "I215", "slice"},
      {"%r = warp_reduce %t {kind = \"sum\", axis = 0, scratch = 0} : f32[64]#1", "I215", "slice"},
      {"%r = warp_transpose %t {perm = [1, 0]} : f32[64, 64]#0", "I215", "permuted"},
      {"%r = convert %t {scratch = -1} : f32[64, 64]#5", "I215", "change threads"},
      // M1
      {"%s2 = smem_alloc {offset = 512} : smem<f16[64, 64], rows=64, cols=64, panel=64, "
       "swizzle=128, depth=1>",
       "I216", "1024"},
      {"%s2 = smem_alloc {offset = 0} : smem<f16[64, 64], rows=64, cols=64, panel=64, swizzle=128, "
       "depth=5>",
       "I216", "beyond"},
      {"%s2 = smem_alloc {offset = 0} : smem<f16[64, 64], rows=64, cols=64, panel=32, swizzle=128, "
       "depth=1>",
       "I216", "as wide"},
      {"%s2 = smem_alloc {offset = 0} : smem<f16[65, 64], rows=64, cols=64, panel=64, swizzle=128, "
       "depth=1>",
       "I216", "larger than its buffer"},
      {"%m2 = mbar_alloc {offset = 12} : mbar<1>", "I216", "multiple of 8"},
      {"%m2 = mbar_alloc {offset = 32768} : mbar<1>", "I216", "32768"},
      {"%r = convert %t {scratch = 30000} : f32[64, 64]#5", "I216", "beyond"},
      {"%r = convert %t {scratch = 8} : f32[64, 64]#5", "I216", "multiple of 16"},
      {kBuffers + "elect do {\ntma_load %s, %m, %z, %z {map = 0, offset = 1024}\n}", "I216",
       "8192"},
      {kBuffers + "%r = mma %acc, %s, %s {k = 128, split = \"m\", trans_a = 0, trans_b = 0, zero = "
                  "1} : f32[64, 64]#4",
       "I216", "too small"},
      // F2 and T1 of warp ops
      {kBuffers + "elect do {\ntma_load %s, %m, %z, %z {map = 1, offset = 0}\n}", "I211",
       "map 1 of 1"},
      {kBuffers + "elect do {\ntma_load %s, %m, %z {map = 0, offset = 0}\n}", "I211", "2 dims"},
      {kBuffers + "elect do {\ntma_store %s, %z, %z {map = 0, offset = 0, kind = \"sub\"}\n}",
       "I211", "kind is"},
      {kBuffers + "elect do {\ntma_store %s, %z, %z {map = 0, offset = 0, kind = \"xor\"}\n}",
       "I212", "\"xor\" on f16"},
      {kBuffers + "mbar_init %m {count = 0}", "I211", "arrivals"},
      {kBuffers + "mbar_wait %m, %z", "I212", "parity"},
      {kBuffers + "mbar_arrive %m, %z", "I212", "slot"},
      {kBuffers + "mbar_arrive %s", "I212", "not mbar"},
      {kBuffers + "smem_store %t, %s", "I212", "the buffer"},
      {kBuffers + "%r = mma %acc, %s, %s {k = 8, split = \"m\", trans_a = 0, trans_b = 0, zero = "
                  "1} : f32[64, 64]#4",
       "I211", "32 bytes"},
      {kBuffers + "%r = mma %acc, %s, %s {k = 64, split = \"x\", trans_a = 0, trans_b = 0, zero = "
                  "1} : f32[64, 64]#4",
       "I211", "split"},
      {"%r = mma_wait %acc {pending = 9} : f32[64, 64]#4", "I211", "pending"},
      {"%r = mma_fence %acc : f32[64, 64]#0", "I212", "result 0"},
      {"cta_sync {id = 16}", "I211", "barrier 16"},
      {"cta_sync {id = 15, parts = 2}", "I211", "barrier 16"},
      {"cta_sync {id = 1, parts = 3}", "I211", "3 parts of 4 warps"},
      {"elect {parts = 1} do {\n}", "I211", "1 parts of 4 warps"},
      {"elect {scope = \"warp\", parts = 2} do {\n}", "I211", "and in warps"},
      {"%r = gload %A, %z, %z {modes = \"rr\", sizes = [64, 64], vector = 3} : f16[64, 64]#0",
       "I211", "vector"},
      {"%r = gload %A, %z, %z {modes = \"rr\", sizes = [64, 64], vector = 2, shifted = 1} : "
       "f16[64, "
       "64]#0",
       "I211", "shifted vectors are of one row"},
      {"%r = gload_scalar %A, %z : f16", "I211", "rank 2"},
      {"counter_add %z {by = 1}", "I212", "operand 0"},
      {"%r = pin %z : i32", "I212", "-> i32"},
      {kBuffers + "%r = mma %acc, %s, %s, %i, %i, %z {k = 64, split "
                  "= \"m\", trans_a = 0, trans_b = 0, zero = 0} : f32[64, 64]#4",
       "I212", "what adds to the accumulator"},
      // Y3
      {kBuffers + "%r = mma %t, %s, %s {k = 64, split = \"m\", trans_a = 0, trans_b = 0, zero = 1} "
                  ": f32[64, 64]#0",
       "I215", "accumulator's layout"},
      {kBuffers + "%h = constant {value = 0.0} : f16[64, 64]#0\n%r = mma %acc, %h, %s {k = 64, "
                  "split = \"m\", trans_a = 0, trans_b = 0, zero = 1} : f32[64, 64]#4",
       "I215", "register operand"},
  };
  for (const Case& c : cases) ExpectTextRejected(Warp(c.line + "\n", kMap), c.code, c.says);
  ExpectTextRejected(Warp("", "  map %N dims=[0] box=[1] swizzle=0\n"), "I217",
                     "no tensor parameter");
  ExpectTextRejected(Warp("", "  map %A dims=[1, 1] box=[64, 64] swizzle=128\n"), "I217", "dim 1");
  ExpectTextRejected(Warp("", "  map %A dims=[1, 0] box=[64, 512] swizzle=128\n"), "I217", "512");
  ExpectTextRejected(Warp("", "  map %A dims=[1, 0] box=[128, 64] swizzle=128\n"), "I217",
                     "256 bytes");
  ExpectTextRejected(Warp("", "  map %A dims=[1, 0] box=[252, 64] swizzle=0\n"), "I217",
                     "504 bytes");
  ExpectTextRejected(Warp("", "  map %A dims=[1, 0] box=[64, 64] swizzle=16\n"), "I217",
                     "swizzle 16");
  ExpectTextRejected(Warp("", "  map %A dims=[1, 0] box=[64, 64] swizzle=128 panel=64\n"), "I217",
                     "3 dims and 2 box extents");
  ExpectTextRejected(Warp("", "  map %A dims=[1, 0] box=[64, 64, 2] swizzle=128 panel=32\n"),
                     "I217", "panels of 32 with a box of 64");
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
