// Counters in shared memory (ir/row_run.h, CountsIn): which loops have them, and which must not.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "ir/counters.h"
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

int Times(const std::string& text, const std::string& word) {
  int times = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++times;
  return times;
}

// Lane l adds to set l modulo the sets, which lie side by side in a counter's place; behind the
// loop one thread adds up the sets of a counter.
TEST_F(CountersTest, LanesAddToSetsOfTheirOwn) {
  EXPECT_EQ(ir::CounterSets(64), 32);   // one for each lane …
  EXPECT_EQ(ir::CounterSets(256), 16);  // … or as many as find room …
  EXPECT_EQ(ir::CounterSets(4096), 1);  // … and one at least
  const std::string few = Ptx(kPlain), many = Ptx(kPlain, "parts: inout i32[P, 256]");
  // The bytes of a lane's set, where it adds and for each that a thread adds up.
  EXPECT_GE(Times(few, ", 124;"), 32);
  EXPECT_LT(Times(few, ", 60;"), 16);
  EXPECT_GE(Times(many, ", 60;"), 16);
  EXPECT_LT(Times(many, ", 124;"), 16);
  // Two loops (turns ahead, and the rest). 64 counters of 128 threads: half of them have one; of
  // 256 each has two.
  EXPECT_EQ(Times(few, " ld.shared."), 2 * 32);
  EXPECT_EQ(Times(many, " ld.shared."), 2 * 2 * 16);
  // What is not counted goes behind the last counter.
  EXPECT_GT(Times(few, ", " + std::to_string(4 * 32 * 64) + ";"), 0);
  EXPECT_GT(Times(many, ", " + std::to_string(4 * 16 * 256) + ";"), 0);
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
