// Which stores separate the instances of the grid, and which reads are safe.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

// Codes reported for a kernel with these parameters, grid and body; "" if it is fine.
std::string Codes(const std::string& params, const std::string& grid, const std::string& body) {
  Loaded loaded("kernel k(" + params + ") {\n  parallel " + grid + " {\n    " + body +
                "\n  }\n}\n");
  if (loaded.program) (void)loaded.Specialized("k");
  return loaded.codes();
}

constexpr const char* kFlat = "Y: out f32[P], T: f32[A, B]";

TEST(Stores, MixedRadixSeparates) {
  EXPECT_EQ(Codes(kFlat, "a in 0..A, b in 0..B", "Y[a * B + b] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "b in 0..B, a in 0..A", "Y[b + B * a] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in 0..A, b in 0..B", "Y[a * A + b] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in 0..A, b in 0..B", "Y[a + b] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in 0..A, b in 0..B, c in 0..4", "Y[(c * A + a) * B + b] = 1"), "");
}

TEST(Stores, QuotientAndRemainderSeparate) {
  const char* params = "Y: out f32[A, B], T: f32[A, B]";
  EXPECT_EQ(Codes(params, "i in 0..A * B", "Y[i / B, i % B] = 1"), "");
  EXPECT_EQ(Codes(params, "i in 0..A * B", "Y[i / B, i % A] = 1"), "F155");
  EXPECT_EQ(Codes(params, "i in 0..A * B", "Y[i / B, 0] = 1"), "F155");
}

TEST(Stores, QuotientsByAStepSeparate) {
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 64)", "Y[a.start / 64] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 64)", "Y[a.start / 16 + 5] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 64)", "Y[(a.start + 3) / 65] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[(7 - 2 * a) / 2] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[(7 - 2 * a) / 3] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 64), b in 0..B", "Y[(a.start + b) / 64] = 1"), "F155");
  EXPECT_EQ(
      Codes("Y: out f32[P, B]", "a in tiles(B, 64), b in 0..B", "Y[(a.start + b) / 64, b] = 1"),
      "");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 64), b in 0..B", "Y[a.start / 64 + b] = 1"), "F155");
}

TEST(Stores, AffineSeparates) {
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[3 * a + 1] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[A - 1 - a] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[a % 4] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[0] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in 0..1", "Y[0] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 8)", "for i in 0..4 { Y[i] = 1 }"), "F155");
}

TEST(Stores, RangesSeparateWhereTheyDoNotOverlap) {
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[a..a + 2] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[2 * a..2 * a + 2] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[7 - 2 * a..9 - 2 * a] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[2 * a..2 * a + 3] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 8)", "Y[a] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 8)", "Y[a.start..a.start + 8] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 8)", "Y[a.start..a.start + 9] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in 0..A, b in 0..B", "Y[a * B + b..a * B + b + 2] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in 0..A", "Y[a / 2..a / 2 + 2] = 1"), "F155");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 8)", "Y[a.start / 4..a.start / 4 + 2] = 1"), "");
  EXPECT_EQ(Codes(kFlat, "a in tiles(A, 8)", "Y[a.start / 4..a.start / 4 + 3] = 1"), "F155");
  // Another index tells the instances apart.
  EXPECT_EQ(Codes("Y: out f32[A, P], T: f32[A, B]", "a in 0..A", "Y[a, a..a + 2] = 1"), "");
}

TEST(Stores, ConditionsLeaveOneInstance) {
  const char* params = "Y: out f32[M], T: f32[M, N], I: i32[N], s: i32";
  const char* grid = "m in tiles(M, 8), n in tiles(N, 8)";
  const auto codes = [&](const std::string& body) { return Codes(params, grid, body); };
  EXPECT_EQ(codes("if n.start == 0 { Y[m] = 1 }"), "");
  EXPECT_EQ(codes("if n.start / 8 == s as i64 { Y[m] = 1 }"), "");
  EXPECT_EQ(codes("if n.start == 0 and m.start >= 0 { Y[m] = 1 }"), "");
  EXPECT_EQ(codes("if n.start != 0 { Y[m] = 2 } else { Y[m] = 1 }"), "F155");
  EXPECT_EQ(codes("if n.start != 0 { let x = 1 } else { Y[m] = 1 }"), "");
  EXPECT_EQ(codes("if n.start != 8 { Y[m] = 1 }"), "F155");
  EXPECT_EQ(codes("if n.start == 0 { } else { Y[m] = 1 }"), "F155");
  EXPECT_EQ(codes("if n.start == 0 or m.start == 0 { Y[m] = 1 }"), "F155");
  EXPECT_EQ(codes("if n.start == 0 { } Y[m] = 1"), "F155");
  EXPECT_EQ(codes("for i in 0..N { if n.start == i { Y[m] = 1 } }"), "F155");
  EXPECT_EQ(codes("if n.start == I[0] { Y[m] = 1 }"), "F155");
  EXPECT_EQ(codes("if n.start + m.start == 0 { Y[m] = 1 }"), "");
  EXPECT_EQ(codes("if n.start + m.start == 0 { Y[0] = 1 }"), "F155");
  EXPECT_EQ(codes("if n.start == 0 and m.start == 0 { Y[0] = 1 }"), "");
}

TEST(Loads, RangesThatOverlapBelongToTwo) {
  const char* params = "Y: inout f32[P, N], X: f32[P, N]";
  EXPECT_EQ(Codes(params, "i in 0..N", "let r = Y[0, 2 * i..2 * i + 2]\n"
                  "    Y[1, 2 * i..2 * i + 2] = r"), "");
  EXPECT_EQ(Codes(params, "i in 0..N", "let r = Y[0, i..i + 2]\n    Y[1, i..i + 2] = r"), "F155");
}

TEST(Stores, DataIsLeftToTheInterpreter) {
  EXPECT_EQ(Codes("Y: out f32[P, N], X: f32[M, N], I: i32[M]", "m in tiles(M, 8), n in tiles(N, 8)",
                  "Y[I[m], n] = X[m, n]"),
            "");
  EXPECT_EQ(Codes("Y: out f32[P], O: i32[G]", "g in 0..G - 1",
                  "for t in tiles(O[g]..O[g + 1], 16) { Y[t] = 1 }"),
            "");
}

TEST(Stores, AtomicsMayMeet) {
  EXPECT_EQ(Codes("Y: inout f32[P], X: f32[P]", "p in tiles(P, 8)", "atomic_add(Y[0], sum(X[p]))"),
            "");
}

TEST(Loads, OwnElementsMayBeRead) {
  const char* params = "Y: inout f32[M, N], X: f32[M, N]";
  EXPECT_EQ(Codes(params, "m in tiles(M, 8), n in tiles(N, 8)", "Y[m, n] = Y[m, n] * 2"), "");
  EXPECT_EQ(Codes(params, "m in tiles(M, 8)",
                  "for n in tiles(N, 8) { Y[m, n] = X[m, n] }\n"
                  "    for j in tiles(N, 16) { Y[m, j] = Y[m, j] + 1 }"),
            "");
  EXPECT_EQ(Codes(params, "m in tiles(M, 8), n in tiles(N, 8)", "Y[m, n] = Y[n, m]"), "F156");
  EXPECT_EQ(Codes(params, "m in 0..M, n in tiles(N, 8)", "Y[m, n] = Y[m + 1, n]"), "F156");
}

}  // namespace
}  // namespace tilec::frontend
