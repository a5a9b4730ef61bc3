// Where keep-rows leaves a program as it is: rows that are too long or of unknown length, that the
// kernel writes, that loops read otherwise, or that depend on each other.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"
#include "tests/unit/lower/keep_rows_kernels.h"

namespace tilec::ir {

namespace {

// The second and the third time are two: what is read again is not held from one to the other.
TEST(KeepRows, EveryLoopReadsForItself) {
  const char* third =
      R"(      %last = for %0, %end, %zero {step = 256} : f32[8] do (%k: i64, %t: f32[8]) {
        %v = load %X, %r, %k {modes = "rr", sizes = [8, 256]} : f32[8, 256]
        %most = reduce %v {kind = "max", axis = 1} : f32[8]
        %u = max %t, %most : f32[8]
        yield %u
      }
      store %S, %last, %r, %stop {modes = "r", sizes = [8]}
      %n = constant)";
  const Function before = Parsed(With(kRows, "      %n = constant", third));
  Function after = Keep(before, 1);
  DiagSink diags;
  PassContext cx{diags, H200(), 0};
  EXPECT_TRUE(Canonicalize(after, cx).ok());
  EXPECT_TRUE(Cse(after, cx).ok());
  EXPECT_EQ(Marked(after, 0), 36);
  EXPECT_EQ(Marked(after, 2), 12);
  ExpectSame(before, after, 21, 3000);
}

TEST(KeepRows, RowsOfUnknownLengthStay) {
  std::string text = With(kRows, "[R, 3000]", "[R, C]");
  text = With(text, "  param dim %R: i64", "  param dim %R: i64\n  param dim %C: i64");
  text = With(text, "for %0, %end", "for %0, %C");
  Keep(Parsed(text), 0);
}

TEST(KeepRows, WhatTheKernelWritesIsReadAgain) {
  Keep(Parsed(With(kRows, "%X: tensor<f32, 2> in", "%X: tensor<f32, 2> inout")), 0);
}

TEST(KeepRows, LoopsThatReadOtherRowsStay) {
  Keep(Parsed(With(kRows, "load %X, %r, %d", "load %X, %stop, %d")), 0);
}

// Beyond the last column 0 is not −0.
TEST(KeepRows, LoopsWithOtherFillsStay) {
  const auto filled = [](const char* first, const char* second) {
    std::string text =
        With(kRows, "      %zero = ",
             std::string("      %fill = constant {value = ") + first +
                 "} : f32\n      %other = constant {value = " + second + "} : f32\n      %zero = ");
    text = With(text, "load %X, %r, %c {modes = \"rr\", sizes = [8, 256]}",
                "load %X, %r, %c, %fill {modes = \"rr\", sizes = [8, 256], has_fill = 1}");
    return With(text, "load %X, %r, %d {modes = \"rr\", sizes = [8, 256]}",
                "load %X, %r, %d, %other {modes = \"rr\", sizes = [8, 256], has_fill = 1}");
  };
  Keep(Parsed(filled("0.0", "0.0")), 1);
  Keep(Parsed(filled("0.0", "-0.0")), 0);
}

TEST(KeepRows, RowsThatChangeFromTurnToTurnStay) {
  std::string text = Gathered(With(kRows, "3000", "6000"));
  for (const char* column : {"%c", "%d"}) {
    const std::string at = std::string(column) + "at", wide = std::string(column) + "wide";
    text = With(text, std::string("load %X, %at, ") + column, "load %X, " + at + ", " + column);
    const std::string name = column == std::string("%c") ? "        %x = " : "        %z = ";
    text = With(text, name,
                "        " + std::string(column) + "low = cast " + column + " : i32\n        " +
                    wide + " = broadcast " + column + "low {axes = []} : i32[8]\n        " + at +
                    " = add %at, " + wide + " : i32[8]\n" + name);
  }
  Keep(Parsed(text), 0);
}

TEST(KeepRows, LoopsOfOtherLengthsStay) {
  Keep(Parsed(With(kRows, "for %0, %end {", "for %c256, %end {")), 0);
}

TEST(KeepRows, PinnedLoopsStay) {
  Keep(Parsed(With(kRows, "sizes = [8, 256]} : f32[8, 256]\n        %part",
                   "sizes = [8, 256], pin_depth = 3} : f32[8, 256]\n        %part")),
       0);
}

// Where rows are not independent, the grid's step is the author's: 96 KB, two CTAs.
TEST(KeepRows, DependentRowsAreNotDivided) {
  // Row numbers, sums of all rows, positions for other purposes, other ends of a tile.
  const std::pair<const char*, const char*> changes[] = {
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %numbers = iota %r : i32[8]\n      %floats = cast %numbers : f32[8]\n"
       "      %mean = div %sum, %floats : f32[8]\n"},
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %all = reduce %sum {kind = \"sum\", axis = 0} : f32\n"
       "      %alls = broadcast %all {axes = []} : f32[8]\n      %mean = div %alls, %n : f32[8]\n"},
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %number = cast %r : f32\n      %numbers = broadcast %number {axes = []} : f32[8]\n"
       "      %mean = div %sum, %numbers : f32[8]\n"},
      {"      %next = add %r, %c8 : i64\n",
       "      %c3 = constant {value = 3} : i64\n      %next = add %r, %c3 : i64\n"},
      {"store %S, %sum, %r, %stop {modes = \"r\"", "store %S, %sum, %at {modes = \"g\""},
      // Numbers in the tile, rows that start elsewhere, a tensor that is read and written.
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %numbers = iota %0 : i32[8]\n      %floats = cast %numbers : f32[8]\n"
       "      %mean = div %sum, %floats : f32[8]\n"},
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %first = load %I, %0 {modes = \"r\", sizes = [8]} : i32[8]\n"
       "      %floats = cast %first : f32[8]\n      %mean = div %sum, %floats : f32[8]\n"},
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %old = load %W, %r, %0 {modes = \"rr\", sizes = [8, 1]} : f32[8, 1]\n"
       "      store %W, %old, %r, %stop, %0, %c8 {modes = \"rr\", sizes = [8, 1]}\n"
       "      %mean = div %sum, %n : f32[8]\n"},
      // Rows of one tensor, then columns of it.
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %down = reshape %sum : f32[8, 1]\n      %across = reshape %sum : f32[1, 8]\n"
       "      store %W, %down, %r, %stop, %0, %c8 {modes = \"rr\", sizes = [8, 1]}\n"
       "      store %W, %across, %0, %c8, %r, %stop {modes = \"rr\", sizes = [1, 8]}\n"
       "      %mean = div %sum, %n : f32[8]\n"},
  };
  for (const auto& [from, to] : changes) {
    const Function after = Keep(Parsed(With(kRows, from, to)), 1);
    EXPECT_EQ(Step(after), 8) << to;
    EXPECT_EQ(Marked(after, 1), 12) << to;
  }
}

// Rows that all CTAs read are not divided with those that are written: 96 KB, two CTAs.
TEST(KeepRows, RowsOfAllCtasAreNotDivided) {
  std::string text = With(kRows, "load %X, %r, %c", "load %X, %0, %c");
  text = With(text, "load %X, %r, %d", "load %X, %0, %d");
  for (const char* what : {"part", "z"})  // so that nothing ties them to the rows of the grid
    text = With(text, std::string("%") + what + " = ", std::string("%") + what + "0 = ");
  text = With(text, "      %both = add %s, %part : f32[8]",
              "      %all = reduce %part0 {kind = \"sum\", axis = 0} : f32\n"
              "        %part = broadcast %all {axes = []} : f32[8]\n"
              "        %both = add %s, %part : f32[8]");
  text = With(text, "        %y = sub %z, %mb : f32[8, 256]",
              "        %most = reduce %z0 {kind = \"max\", axis = 0} : f32[256]\n"
              "        %z = broadcast %most {axes = [1]} : f32[8, 256]\n"
              "        %y = sub %z, %mb : f32[8, 256]");
  const Function after = Keep(Parsed(text), 1);
  EXPECT_EQ(Step(after), 8);
  EXPECT_EQ(Marked(after, 1), 12);
}

// 12 turns of 120 ops would be 1440.
TEST(KeepRows, LongLoopsStay) {
  std::string sums = "        %part = reduce %x {kind = \"sum\", axis = 1} : f32[8]\n",
              last = "part";
  for (int i = 0; i < 110; ++i) {
    const std::string next = "more" + std::to_string(i);
    sums += "        %" + next + " = add %" + last + ", %part : f32[8]\n";
    last = next;
  }
  std::string text =
      With(kRows, "        %part = reduce %x {kind = \"sum\", axis = 1} : f32[8]\n", sums);
  text = With(text, "add %s, %part", "add %s, %" + last);
  Keep(Parsed(text), 0);
}

// Two loops of three read X: the other one stays where it is.
TEST(KeepRows, LoopsInBetweenStay) {
  const char* between = R"(      %mean = div %sum, %n : f32[8]
      %more = for %0, %end, %zero {step = 256} : f32[8] do (%k: i64, %t: f32[8]) {
        %more2 = add %t, %mean : f32[8]
        yield %more2
      }
      store %S, %more, %r, %stop {modes = "r", sizes = [8]}
)";
  const Function before = Parsed(With(kRows, "      %mean = div %sum, %n : f32[8]\n", between));
  const Function after = Keep(before, 1);
  EXPECT_EQ(Count(after, OpKind::kFor), 1);
  EXPECT_EQ(Marked(after, 1), 12);
  ExpectSame(before, after, 21, 3000);
}

}  // namespace

}  // namespace tilec::ir
