// Counters in shared memory (ir/row_run.h, CountsIn): which loops have them, and which must not.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/api/loaded.h"

namespace tilec {
namespace {

class CountersTest : public ::testing::Test {
 protected:
  // The PTX of a kernel whose body this is. X [N], T [N], parts [P, 64].
  std::string Ptx(const std::string& body, const char* parts = "parts: inout i32[P, 64]") {
    api::Loaded loaded;
    LoadText(loaded, "kernel k(X: i32[N], T: out i32[N], " + std::string(parts) +
                         ") {\n  parallel p in 0..P {\n" + body + "  }\n}\n");
    DiagSink diags;
    api::Call call;
    for (const char* name : {"X", "T", "parts"})
      call.facts[name] = {.base_align_bytes = 16,
                          .stride_align_bytes = 16,
                          .last_dim_align = 8,
                          .last_contiguous = true};
    auto fn = api::MakeTileIr(loaded, "k", call, nullptr, diags);
    EXPECT_TRUE(fn.ok()) << RenderAll(diags, loaded.sources);
    if (!fn.ok()) return "";
    auto warps = api::LowerToWarps(loaded, std::move(*fn), {}, nullptr, diags);
    EXPECT_TRUE(warps.ok()) << RenderAll(diags, loaded.sources);
    auto image = api::MakeImage(loaded, *warps, {}, nullptr, diags);
    EXPECT_TRUE(image.ok()) << RenderAll(diags, loaded.sources);
    return image->ptx;
  }
  static bool Counts(const std::string& ptx) {
    return ptx.find("red.relaxed.cta.shared.add.u32") != std::string::npos;
  }
};

constexpr const char* kPlain =
    "    for n in tiles(N, 256) {\n      atomic_add(parts[p, X[n]], 1)\n    }\n";

constexpr const char* kToMemory = "red.relaxed.gpu.global";

TEST_F(CountersTest, ARowOfALoopHasThem) {
  const std::string ptx = Ptx(kPlain);
  EXPECT_TRUE(Counts(ptx));
  // Two loops (turns ahead, and the rest), 64 counters of 128 threads: two additions to memory.
  const size_t first = ptx.find(kToMemory), second = ptx.find(kToMemory, first + 1);
  ASSERT_NE(second, std::string::npos);
  EXPECT_EQ(ptx.find(kToMemory, second + 1), std::string::npos);
}

TEST_F(CountersTest, ARowThatMovesHasNone) {
  EXPECT_FALSE(Counts(Ptx(
      "    for n in tiles(N, 256) {\n      atomic_add(parts[n.start / 256, X[n]], 1)\n    }\n")));
}

TEST_F(CountersTest, WhatSomebodyReadsHasNone) {
  EXPECT_FALSE(Counts(
      Ptx("    for n in tiles(N, 256) {\n      atomic_add(parts[p, X[n]], parts[p, 3])\n    }\n")));
}

TEST_F(CountersTest, RowsOfUnknownLengthAndWithoutALoopHaveNone) {
  EXPECT_FALSE(Counts(Ptx(kPlain, "parts: inout i32[P, Q]")));
  EXPECT_FALSE(Counts(Ptx("    let x = X[0..256]\n    atomic_add(parts[p, x], 1)\n")));
}

TEST_F(CountersTest, FloatsHaveNone) {
  EXPECT_FALSE(
      Counts(Ptx("    for n in tiles(N, 256) {\n      atomic_add(parts[p, X[n]], 1.0)\n    }\n",
                 "parts: inout f32[P, 64]")));
}

}  // namespace
}  // namespace tilec
