// The verifier's rules for warp programs: each is tripped by a test here.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <set>

#include "ir/verify.h"
#include "tests/unit/ir/test_util.h"
#include "tests/unit/ir/verify_texts.h"

namespace tilec::ir {

namespace {

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

}  // namespace

}  // namespace tilec::ir
