// Rows of a right operand that come every second one, so that what is made of the product's sum is
// the next one's left operand as threads have it (ir/lower/interleave_columns.cc).
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// O = Σ_k e4m3(Q·K[k]ᵀ)·V[k]: V with its rows along the last dim.
constexpr const char* kTwo = R"(func @two tile {
  param tensor %Q: tensor<e4m3, 2> in [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %K: tensor<e4m3, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %V: tensor<TYPE, 2> in [64, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %S: tensor<f32, 2> out [M, L] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    %w = constant {value = 64} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %z = constant {value = 0} : f32[64, 64]
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      %q = load %Q, %m, %0 {modes = "rr", sizes = [64, 64]} : e4m3[64, 64]
      %acc = for %0, %L, %z {step = 64} : f32[64, 64] do (%k: i64, %c: f32[64, 64]) {
        %kt = load %K, %k, %0 {modes = "rr", sizes = [64, 64]} : e4m3[64, 64]
        %ktt = transpose %kt {perm = [1, 0]} : e4m3[64, 64]
        %s = dot %q, %ktt, %z : f32[64, 64]
        MORE
        %p = cast %s : TYPE[64, 64]
        %vt = load %V, %0, %k {modes = "rr", sizes = [64, 64]} : TYPE[64, 64]
        %vtt = transpose %vt {perm = [1, 0]} : TYPE[64, 64]
        %n = dot %p, %vtt, %c : f32[64, 64]
        yield %n
      }
      store %O, %acc, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)";

// Maps whose boxes step over rows; copies by them; conversions of layouts.
struct Found {
  int maps = 0, copies = 0, conversions = 0;
};
Found In(const std::string& type, const std::string& more) {
  const Function warp = InRoles(Parsed(With(With(kTwo, "TYPE", type), "MORE", more)));
  EXPECT_EQ(Said(warp), "");
  Found found;
  for (const TensorMapInfo& map : warp.launch.maps) {
    if (map.steps.empty()) continue;
    ++found.maps;
    EXPECT_EQ(map.steps, (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(map.box, (std::vector<int64_t>{64, 32}));
  }
  std::set<int64_t> offsets;
  for (const Op& op : warp.ops)
    if (op.kind == OpKind::kTmaLoad &&
        !warp.launch.maps[static_cast<size_t>(op.i("map"))].steps.empty()) {
      ++found.copies;
      offsets.insert(op.i("offset"));
    }
  if (found.copies > 0) {
    EXPECT_EQ(offsets, (std::set<int64_t>{0, 32 * 64}));
  }
  for (const Op& op : warp.ops)
    found.conversions += op.kind == OpKind::kConvert &&
                         !RegisterMap(warp.layout(op.operands[0]), warp.layout(op.results[0]),
                                      warp.type(op.results[0]).shape);
  return found;
}

TEST(InterleaveColumns, LeftOperandsOfEightBitsNeedNoExchange) {
  const Found found = In("e4m3", "");
  EXPECT_EQ(found.maps, 1);
  EXPECT_EQ(found.copies, 2);
  EXPECT_EQ(found.conversions, 0);
}

TEST(InterleaveColumns, NotWhereTheSumIsStored) {
  const Found found = In("e4m3", R"(%ke = add %k, %w : i64
        %kend = min %ke, %L : i64
        store %S, %s, %m, %end, %k, %kend {modes = "rr", sizes = [64, 64]})");
  EXPECT_EQ(found.maps, 0);
  EXPECT_EQ(found.conversions, 1);
}

// Of 16 bits sums are left operands as they are.
TEST(InterleaveColumns, NotForSixteenBits) {
  const Found found = In("bf16", "");
  EXPECT_EQ(found.maps, 0);
  EXPECT_EQ(found.conversions, 0);
}

}  // namespace
}  // namespace tilec::ir
