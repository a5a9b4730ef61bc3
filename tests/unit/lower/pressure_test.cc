// What a program needs beside its tiles.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/pressure.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

constexpr const char* kPlain =
    "k = 16, split = \"m\", trans_a = 0, trans_b = 0, zero = 0, k_begin = 0";

// A role in which one accumulator goes through `products` products.
Function Chain(int products) {
  std::string text = fmt::format(R"(func @chain warp {{
  layout #0 = rank 2 t(4:1*2 8:0*1 4:0*16) r(2:1*1 2:0*8 2:1*8)
  launch warps=4 smem=16384 grid=1
  body {{
    %a = smem_alloc {{offset = 0}} : smem<bf16[64, 16], rows=64, {0}>
    %b = smem_alloc {{offset = 8192}} : smem<bf16[16, 16], rows=16, {0}>
    role {{name = "main", first_warp = 0, warps = 4, regs = 0}} do {{
      %c0 = constant {{value = 0.0}} : f32[64, 16]#0
      %slot = constant {{value = 0}} : i32
)",
                                 "cols=16, panel=16, swizzle=32, depth=1");
  for (int i = 0; i < products; ++i)
    text += fmt::format(R"(      %f{0} = mma_fence %c{0} : f32[64, 16]#0
      %d{0} = mma %f{0}, %a, %b, %slot, %slot {{{2}}} : f32[64, 16]#0
      mma_commit
      %c{1} = mma_wait %d{0} {{pending = 0}} : f32[64, 16]#0
)",
                        i, i + 1, kPlain);
  return Parsed(text + "      yield\n    }\n  }\n}\n");
}

// The tiles are the same ones however many products there are; what is wanted beside them is not.
TEST(Pressure, ManyProductsWantRegistersBesideTiles) {
  for (const auto& [products, spare] :
       {std::pair{0, 8}, std::pair{1, 8}, std::pair{8, 8}, std::pair{9, 10}, std::pair{35, 62}}) {
    const Function fn = Chain(products);
    EXPECT_EQ(SpareRegisters(fn, H200()), spare) << products << " products";
    for (OpId id : fn.blocks[fn.body].ops)
      if (products > 0 && fn.ops[id].kind == OpKind::kRole) {
        EXPECT_EQ(PeakRegisters(fn, id), 8);
      }
  }
}

// A loop that carries scores to their exponentials, and those to whoever reads them a turn later,
// while a product makes the next scores; the exponentials under it or in front of it.
Function Carried(bool under_way) {
  const std::string exponentials = "      %q = exp2 %s : f32[64, 64]#0\n";
  const std::string product =
      fmt::format(R"(      %f = mma_fence %z : f32[64, 64]#0
      %d = mma %f, %a, %b, %slot, %slot {{k = 16, {}}} : f32[64, 64]#0
      mma_commit
)",
                  "split = \"m\", trans_a = 0, trans_b = 0, zero = 1, k_begin = 0");
  const std::string operand =
      "smem<bf16[64, 16], rows=64, cols=16, panel=16, swizzle=32, depth=1>\n";
  return Parsed(R"(func @carried warp {
  layout #0 = rank 2 t(4:1*2 8:0*1 4:0*16) r(2:1*1 2:0*8 8:1*8)
  launch warps=4 smem=16384 grid=1
  body {
    %a = smem_alloc {offset = 0} : )" +
                operand + "    %b = smem_alloc {offset = 8192} : " + operand + R"(
    role {name = "main", first_warp = 0, warps = 4, regs = 0} do {
      %lo = constant {value = 0} : i64
      %hi = constant {value = 9} : i64
      %slot = constant {value = 0} : i32
      %z = constant {value = 0.0} : f32[64, 64]#0
      %r, %t = for %lo, %hi, %z, %z {step = 1} : f32[64, 64]#0, f32[64, 64]#0)" +
                " do (%i: i64, %s: f32[64, 64]#0, %p: f32[64, 64]#0) {\n" +
                (under_way ? product + exponentials : exponentials + product) +
                R"(      %n = mma_wait %d {pending = 0} : f32[64, 64]#0
      yield %n, %q
      }
      yield
    }
  }
}
)");
}

// No more than two tiles of 32 registers are alive, but under the product three have places: 16 of
// their registers may be moved.
TEST(Pressure, WhatLoopsCarryHasPlaces) {
  for (const bool under_way : {true, false}) {
    const Function fn = Carried(under_way);
    for (OpId id : fn.blocks[fn.body].ops)
      if (fn.ops[id].kind == OpKind::kRole) {
        EXPECT_EQ(PeakRegisters(fn, id), 64);
        EXPECT_EQ(PlacedRegisters(fn, id), (under_way ? 3 : 2) * 32 - 16);
      }
  }
}

// Eight tiles of a row, 8 registers each, in 32 KB, of which an SM has room for six. They are read
// twice from shared memory, by threads that reduce within their warps.
Function Row(const std::string& between) {
  std::string text = R"(func @row warp {
  layout #0 = rank 2 t(32:1*4 4:0*1) r(4:1*1 2:0*4)
  layout #1 = rank 1 t(32:- 4:0*1) r(2:0*4)
  launch warps=4 smem=32768 grid=1
  body {
)";
  for (int i = 0; i < 8; ++i)
    text += fmt::format("    %s{} = smem_alloc {{offset = {}}} : smem<f32[8, 128], {}>\n", i,
                        4096 * i, "rows=8, cols=128, panel=128, swizzle=0, depth=1");
  text += "    role {name = \"main\", first_warp = 0, warps = 4, regs = 0} do {\n";
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < 8; ++i)
      text += fmt::format(R"(      %t{0}_{1} = smem_load %s{1} : f32[8, 128]#0
      %r{0}_{1} = warp_reduce %t{0}_{1} {{kind = "max", axis = 1, scratch = -1}} : f32[8]#1
)",
                          pass, i);
    if (pass == 0) text += between;
  }
  return Parsed(text + "      yield\n    }\n  }\n}\n");
}

// Nothing makes ptxas read again what it has: the whole row stays in registers, 64 of them, and
// with 24 beside them five CTAs find room. A barrier in between lets go of it.
TEST(Pressure, RowsReadTwiceWithoutABarrierAreHeld) {
  for (const auto& [between, ctas] :
       {std::pair{"", 5}, std::pair{"      cta_sync {id = 0}\n", 6}}) {
    const Function fn = Row(between);
    for (OpId id : fn.blocks[fn.body].ops)
      if (fn.ops[id].kind == OpKind::kRole) {
        EXPECT_EQ(CtasPerSm(fn, H200(), id, true), ctas) << between;
      }
  }
}

// Columns of 256 elements, two of each in a thread, scanned across lanes, warps and registers.
Function Scanned(int64_t columns, bool read_again) {
  const std::string type = fmt::format("f32[256, {}]#0", columns);
  const std::string tensor = "align=16 stride_align=16 contiguous=1 last_align=16";
  std::string text = fmt::format(R"(func @scanned warp {{
  layout #0 = rank 2 t(32:0*1 4:0*32) r({}:1*1 2:0*128)
  param tensor %X: tensor<f32, 2> in [M, N] {}
  param tensor %Y: tensor<f32, 2> out [M, N] {}
  param dim %M: i64
  param dim %N: i64
  launch warps=4 smem=1024 grid=1
  body {{
    role {{name = "main", first_warp = 0, warps = 4, regs = 0}} do {{
      %lo = constant {{value = 0}} : i64
      %rows = constant {{value = 256}} : i64
      %cols = constant {{value = {}}} : i64
)",
                                 columns, tensor, tensor, columns);
  const std::string box = fmt::format("modes = \"rr\", sizes = [256, {}], vector = 4", columns);
  text += fmt::format("      %x = gload %X, %lo, %lo {{{}, has_fill = 0}} : {}\n", box, type);
  text +=
      fmt::format("      %s = warp_scan %x {{kind = \"sum\", axis = 0, scratch = 0}} : {}\n", type);
  if (read_again) text += fmt::format("      %t = add %s, %x : {}\n", type);
  text += fmt::format("      gstore %Y, %{}, %lo, %rows, %lo, %cols {{{}}}\n",
                      read_again ? "t" : "s", box);
  return Parsed(text + "      yield\n    }\n  }\n}\n");
}

// Four columns: 8 elements, as many totals, 8 for what is on its way between threads, and 24 beside
// tiles. The elements alone would leave room for 16 CTAs. Of eight columns ptxas decides.
TEST(Pressure, ScansHoldTotalsBesideTheirElements) {
  struct Case {
    int64_t columns;
    bool read_again;
    int64_t ctas;
  };
  for (const auto& [columns, read_again, ctas] :
       {Case{4, false, 65536 / (48 * 128)}, Case{4, true, 65536 / (56 * 128)}, Case{8, false, 0}}) {
    const Function fn = Scanned(columns, read_again);
    for (OpId id : fn.blocks[fn.body].ops)
      if (fn.ops[id].kind == OpKind::kRole) {
        EXPECT_EQ(CtasPerSm(fn, H200(), id, false), ctas) << columns << " columns";
      }
  }
}

// A loop that loads from two tensors, stores to a third or not, and adds up what it made.
Function Summed(bool stores, bool sums) {
  const std::string tensor = "align=16 stride_align=16 contiguous=1 last_align=16";
  const std::string box = "modes = \"rr\", sizes = [8, 128], vector = 4";
  std::string text = R"(func @summed warp {
  layout #0 = rank 2 t(32:1*4 4:0*1) r(4:1*1 2:0*4)
)";
  for (const char* name : {"X in", "Z in", "Y out"})
    text += fmt::format("  param tensor %{}: tensor<f32, 2> {} [M, N] {}\n",
                        std::string(name).substr(0, 1), std::string(name).substr(2), tensor);
  text += R"(  param dim %M: i64
  param dim %N: i64
  launch warps=4 smem=0 grid=1
  body {
    role {name = "main", first_warp = 0, warps = 4, regs = 0} do {
      %lo = constant {value = 0} : i64
      %zero = constant {value = 0.0} : f32[8, 128]#0
)";
  text +=
      sums ? "      %all = for %lo, %M, %zero {step = 8} : f32[8, 128]#0 do (%m: i64, %s: f32[8, "
             "128]#0) {\n"
           : "      for %lo, %M {step = 8} do (%m: i64) {\n";
  for (const char* name : {"X", "Z"})
    text += fmt::format(
        "        %{0}.t = gload %{0}, %m, %lo {{{1}, has_fill = 0}} : f32[8, 128]#0\n", name, box);
  text += "        %y = mul %X.t, %Z.t : f32[8, 128]#0\n";
  if (stores) text += fmt::format("        gstore %Y, %y, %m, %M, %lo, %N {{{}}}\n", box);
  text += sums ? "        %n = add %s, %y : f32[8, 128]#0\n        yield %n\n" : "        yield\n";
  return Parsed(text + "      }\n      yield\n    }\n  }\n}\n");
}

// Six registers for the place of each tensor, where all of it comes together.
TEST(Pressure, TurnsThatLoadStoreAndSumKeepPlaces) {
  int64_t registers[2][2];
  for (const bool stores : {false, true})
    for (const bool sums : {false, true}) {
      const Function fn = Summed(stores, sums);
      for (OpId id : fn.blocks[fn.body].ops)
        if (fn.ops[id].kind == OpKind::kRole)
          registers[stores][sums] = RowRegisters(fn, H200(), id, false);
    }
  EXPECT_EQ(registers[0][0], registers[1][0]);
  EXPECT_GE(registers[1][1], registers[0][1] + 16);
}

}  // namespace
}  // namespace tilec::ir
