// What CTAs of a cluster combine: the rules of both levels, and the interpreter's meaning by hand.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/interpret.h"
#include "ir/layout.h"
#include "tests/unit/ir/execute.h"

namespace tilec::ir {
namespace {

// CTA p of `ctas` for each row has `value` (of %p, %row, and its row %x of A), and the first of
// them stores what comes of it.
std::string Rows(int ctas, const std::string& value, const std::string& kind,
                 const std::string& dtype = "f32") {
  return fmt::format(R"(func @f tile {{
  param tensor %A: tensor<{2}, 2> in [M, N] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<{2}, 2> out [M, N] align=1 stride_align=1 contiguous=1
  param dim %M: i64
  param dim %N: i64
  body {{
    %z = constant {{value = 0}} : i64
    %one = constant {{value = 1}} : i64
    %ctas = constant {{value = {0}}} : i64
    parallel %z, %ctas, %z, %M {{steps = [1, 1], cluster = {0}}} do (%p: i64, %row: i64) {{
      %x = load %A, %row, %z {{modes = "sr", sizes = [1, 4]}} : {2}[4]
      {1}
      %c = cluster_reduce %v {{kind = "{3}"}} : {2}[4]
      %first = cmp %p, %z {{pred = "eq"}} : bool
      if %first do {{
        store %R, %c, %row, %z, %N {{modes = "sr", sizes = [1, 4]}}
        yield
      }} do {{
        yield
      }}
      yield
    }}
  }}
}}
)",
                     ctas, value, dtype, kind);
}

std::vector<double> ResultOf(const std::string& text) {
  Ran run = Execute(text, {{"A", Counting(DType::kF32, {3, 4})}});  // 0 1 2 …
  EXPECT_TRUE(run.ok) << Messages(run.diags);
  return run.ok ? run["R"].v : std::vector<double>();
}

TEST(ClusterReduce, EveryCtaOfTheClusterAdds) {
  EXPECT_EQ(ResultOf(Rows(4, "%v = add %x, %x : f32[4]", "add")),
            (std::vector<double>{0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88}));
}

// CTA p has p times the row: the largest is of the last, the smallest of the first.
TEST(ClusterReduce, LargestAndSmallest) {
  const std::string own =
      "%pf = cast %p : f32\n      %pt = broadcast %pf {axes = []} : f32[4]\n"
      "      %v = mul %x, %pt : f32[4]";
  EXPECT_EQ(ResultOf(Rows(8, own, "max")),
            (std::vector<double>{0, 7, 14, 21, 28, 35, 42, 49, 56, 63, 70, 77}));
  EXPECT_EQ(ResultOf(Rows(8, own, "min")), (std::vector<double>(12, 0)));
}

// Added up in the order of the ranks: 2^24 + 1 + 1 is 2^24 in f32, 1 + 1 + 2^24 would not be.
TEST(ClusterReduce, InTheOrderOfRanks) {
  const std::string own =
      "%big = constant {value = 16777216.0} : f32[4]\n      %small = constant {value = 1.0} : "
      "f32[4]\n      %rank = cmp %p, %z {pred = \"eq\"} : bool\n"
      "      %mask = broadcast %rank {axes = []} : bool[4]\n"
      "      %v = select %mask, %big, %small : f32[4]";
  EXPECT_EQ(ResultOf(Rows(4, own, "add")), (std::vector<double>(12, 16777216)));
}

// The others go on with zeros.
TEST(ClusterReduce, OnlyTheFirstHasTheResult) {
  std::string text = Rows(2, "%v = add %x, %x : f32[4]", "add");
  text.replace(text.find("\"eq\""), 4, "\"ne\"");
  EXPECT_EQ(ResultOf(text), (std::vector<double>(12, 0)));
}

// CTA p has the p-th run of columns; of five in runs of two the last has one, and a fourth CTA
// none.
TEST(ClusterReduce, SlicesOfColumns) {
  const auto text = [](const std::string& slice, int slices) {
    return fmt::format(R"(func @f tile {{
  param tensor %A: tensor<f32, 2> in [2, 5] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 2> out [8, 2] align=1 stride_align=1 contiguous=1
  body {{
    %z = constant {{value = 0}} : i64
    %four = constant {{value = 4}} : i64
    %eight = constant {{value = 8}} : i64
    %two = constant {{value = 2}} : i64
    parallel %z, %four {{steps = [1], cluster = 4}} do (%p: i64) {{
      %x = load %A, %z, %z {{modes = "rr", sizes = [2, 5]}} : f32[2, 5]
      %c = cluster_reduce %x {{kind = "add", slices = {1}}} : {0}
      %row = mul %p, %two : i64
      store %R, %c, %row, %eight, %z, %two {{modes = "rr", sizes = [2, 2]}}
      yield
    }}
  }}
}}
)",
                       slice, slices);
  };
  Ran run = Execute(text("f32[2, 2]", 3), {{"A", Counting(DType::kF32, {2, 5})}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run["R"].v,
            (std::vector<double>{0, 4, 20, 24, 8, 12, 28, 32, 16, 0, 36, 0, 0, 0, 0, 0}));
  const auto rejected = [&](const std::string& slice, int slices, const std::string& says) {
    DiagSink diags;
    Result<Function> fn = ParseFunction(text(slice, slices), diags);
    ASSERT_TRUE(fn.ok()) << Messages(diags);
    EXPECT_FALSE(Verify(*fn, diags).ok());
    EXPECT_NE(Messages(diags).find(says), std::string::npos) << Messages(diags);
  };
  rejected("f32[2, 2]", 2, "becomes");  // one column is nobody's
  rejected("f32[2, 2]", 4, "becomes");  // a slice has nothing
  rejected("f32[1, 2]", 3, "becomes");
  rejected("f32[2, 1]", 5, "5 slices of 4 CTAs");
}

void ExpectRejected(const std::string& text, const std::string& says) {
  DiagSink diags;
  Result<Function> fn = ParseFunction(text, diags);
  ASSERT_TRUE(fn.ok()) << Messages(diags) << text;
  EXPECT_FALSE(Verify(*fn, diags).ok()) << text;
  EXPECT_NE(Messages(diags).find(says), std::string::npos) << Messages(diags);
}

TEST(ClusterReduce, RulesOfTiles) {
  const std::string value = "%v = add %x, %x : f32[4]";
  ExpectRejected(Rows(4, value, "mul"), "add, min or max");
  std::string alone = Rows(4, value, "add");
  alone.replace(alone.find(", cluster = 4"), 13, "");
  ExpectRejected(alone, "directly in a `parallel` with a cluster");
  ExpectRejected(Rows(4, "%v = add %x, %x : f16[4]", "add", "f16"), "32-bit numbers");
  std::string inside = Rows(4, value, "add");
  inside.replace(inside.find("%c = cluster_reduce"), 2, "%d");
  inside.replace(inside.find("        store"), 0,
                 "        %c = cluster_reduce %v {kind = \"add\"} : f32[4]\n");
  ExpectRejected(inside, "directly in a `parallel` with a cluster");
}

// Of slices: four of eight columns for eight CTAs.
TEST(ClusterReduce, RulesOfSlices) {
  const std::string acc = ToText(AccumulatorLayout(64, 32, 1, WgSplit::kM));
  const std::string own = ToText(AccumulatorLayout(64, 8, 1, WgSplit::kM));
  const auto text = [&](const std::string& smem, const std::string& mbar,
                        const std::string& slice) {
    return fmt::format(R"(func @f warp {{
  layout #0 = rank 2 {}
  layout #1 = rank 2 {}
  param dim %N: i64
  launch warps=4 smem=32768 cluster=8 grid=N
  body {{
    %s = smem_alloc {{offset = 0}} : {}
    %m = mbar_alloc {{offset = 16384}} : {}
    role {{name = "main", first_warp = 0, warps = 4, regs = 0}} do {{
      %t = constant {{value = 0.0}} : f32[64, 32]#0
      %c = warp_cluster_reduce %t, %s, %m {{kind = "add", slices = 4}} : {}
      yield
    }}
  }}
}}
)",
                       acc, own, smem, mbar, slice);
  };
  const std::string smem = "smem<f32[16, 32], rows=16, cols=32, panel=32, swizzle=0, depth=4>";
  Parsed(text(smem, "mbar<2>", "f32[64, 8]#1"));
  Parsed(text(smem, "mbar<1>", "f32[64, 8]#1"));
  ExpectRejected(text(smem, "mbar<3>", "f32[64, 8]#1"), "not mbar<2>");
  ExpectRejected(text("smem<f32[16, 32], rows=16, cols=32, panel=32, swizzle=0, depth=8>",
                      "mbar<2>", "f32[64, 8]#1"),
                 "4 parts of");
  ExpectRejected(text("smem<f32[32, 32], rows=32, cols=32, panel=32, swizzle=0, depth=4>",
                      "mbar<2>", "f32[64, 8]#1"),
                 "no place for 16 registers of 128 threads");
  ExpectRejected(text(smem, "mbar<2>", "f32[64, 16]#1"), "becomes");
}

// 64 x 32 in one warpgroup: 16 registers of a thread, two for each of eight CTAs.
std::string Warps(const std::string& smem, const std::string& mbar, int cluster = 8,
                  const std::string& kind = "add") {
  const Layout acc = AccumulatorLayout(64, 32, 1, WgSplit::kM);
  return fmt::format(R"(func @f warp {{
  layout #0 = rank 2 {}
  param dim %N: i64
  launch warps=4 smem=32768 cluster={} grid=N
  body {{
    %s = smem_alloc {{offset = 0}} : {}
    %m = mbar_alloc {{offset = 16384}} : {}
    role {{name = "main", first_warp = 0, warps = 4, regs = 0}} do {{
      %t = constant {{value = 0.0}} : f32[64, 32]#0
      %c = warp_cluster_reduce %t, %s, %m {{kind = "{}"}} : f32[64, 32]#0
      yield
    }}
  }}
}}
)",
                     ToText(acc), cluster, smem, mbar, kind);
}

TEST(ClusterReduce, RulesOfWarps) {
  const std::string parts = "smem<f32[8, 32], rows=8, cols=32, panel=32, swizzle=0, depth=8>";
  const std::string whole = "smem<f32[64, 32], rows=64, cols=32, panel=32, swizzle=0, depth=1>";
  Parsed(Warps(parts, "mbar<3>"));
  Parsed(Warps(whole, "mbar<3>"));
  // Parts need not be equal: with four for each CTA the last four have nothing. More is no use.
  Parsed(Warps("smem<f32[16, 32], rows=16, cols=32, panel=32, swizzle=0, depth=8>", "mbar<3>"));
  ExpectRejected(
      Warps("smem<f32[24, 32], rows=24, cols=32, panel=32, swizzle=0, depth=8>", "mbar<3>"),
      "no place for 16 registers of 128 threads");
  ExpectRejected(Warps(parts, "mbar<3>", 1), "clusters of 1");
  ExpectRejected(Warps(parts, "mbar<3>", 4), "1 or 4 parts");
  ExpectRejected(Warps(parts, "mbar<2>"), "not mbar<3>");
  ExpectRejected(Warps(parts, "mbar<3>", 8, "sum"), "add, min or max");
  ExpectRejected(
      Warps("smem<f32[8, 32], rows=8, cols=32, panel=32, swizzle=0, depth=1>", "mbar<3>"),
      "no place for 16 registers of 128 threads");
  std::string inside = Warps(parts, "mbar<3>");
  inside.replace(inside.find("      %c ="), 0,
                 "      %y = constant {value = 1} : bool\n      if %y do {\n");
  inside.replace(inside.find("      yield\n"), 0,
                 "        yield\n      } do {\n        yield\n      }\n");
  ExpectRejected(inside, "directly in a role");
}

// A number for all CTAs: a slot for each of them, one barrier.
TEST(ClusterReduce, RulesOfNumbersForAll) {
  const auto number = [](const std::string& smem, const std::string& mbar) {
    std::string text = Warps(smem, mbar);
    const auto put = [&](const std::string& from, const std::string& to) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
        text.replace(at, from.size(), to);
    };
    put("f32[64, 32]#0", "f32");
    put("{kind = \"add\"}", "{kind = \"add\", all = 1}");
    return text;
  };
  const std::string slots = "smem<f32[1, 32], rows=1, cols=32, panel=32, swizzle=0, depth=8>";
  Parsed(number(slots, "mbar<1>"));
  Parsed(number("smem<f32[4, 32], rows=4, cols=32, panel=32, swizzle=0, depth=1>", "mbar<3>"));
  ExpectRejected(number(slots, "mbar<3>"), "not mbar<1>");
  ExpectRejected(
      number("smem<f32[1, 32], rows=1, cols=32, panel=32, swizzle=0, depth=4>", "mbar<1>"),
      "1 or 8 parts");
  std::string tile = Warps("smem<f32[8, 32], rows=8, cols=32, panel=32, swizzle=0, depth=8>",
                           "mbar<1>");
  tile.replace(tile.find("{kind = \"add\"}"), 14, "{kind = \"add\", all = 1}");
  ExpectRejected(tile, "all read it whole");
}

}  // namespace
}  // namespace tilec::ir
