// Random integers follow from what a kernel does with them.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/random_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/frontend/helper.h"

namespace tilec::tools {
namespace {

using ir::DType;

const char* kKernels = R"(
kernel pages(table: i32[P], KV: f32[R, 64], Y: out f32[P, 4, 64]) {
  parallel p in 0..P {
    for r in tiles(0..4, 4) {
      Y[p, r, :] = KV[table[p] * 4 + r.index, :]
    }
  }
}
kernel scatter(to: i32[N], X: f32[N], Y: out f32[M]) {
  parallel n in 0..N {
    Y[to[n]] = X[n]
  }
}
kernel ragged(offsets: i32[G1], X: f32[T], Y: out f32[G])
  where G1 == G + 1
{
  parallel g in 0..G {
    var total: f32 = 0
    for t in offsets[g]..offsets[g + 1] {
      total += X[t]
    }
    Y[g] = total
  }
}
kernel nibbles(W: u8[N], Z: i32[N], low: out u8[N], high: out u8[N], sums: out i32[N]) {
  parallel n in tiles(N, 64) {
    low[n] = bit_and(W[n], 15)
    high[n] = shr(W[n], 4)
    sums[n] = Z[n] + 1
  }
}
kernel masked(mask: u8[N], length: i32[B], X: f32[B, N], Y: out f32[B, N]) {
  parallel b in 0..B, n in tiles(N, 64) {
    let live = mask[n] != 7 and n.index < length[b]
    Y[b, n] = select(live, X[b, n], 0.0)
  }
}
)";

struct Filled {
  std::map<std::string, IntegerUse> uses;
  Shapes shapes;
  std::vector<int64_t> Of(const std::string& name, DType d, uint64_t seed = 1) {
    const ir::TensorValue t = RandomTensor(d, shapes.at(name), uses.at(name), shapes, seed);
    return {t.v.begin(), t.v.end()};
  }
};

Filled Look(const std::string& kernel, Shapes shapes) {
  frontend::Loaded loaded(kKernels);
  const std::optional<ir::Function> fn = loaded.Specialized(kernel);
  EXPECT_TRUE(fn) << loaded.errors();
  Filled out;
  if (fn) out.uses = IntegerUses(*fn, shapes);
  out.shapes = std::move(shapes);
  return out;
}

TEST(RandomInputs, PagesLieInTheTableAndAreSpreadOverIt) {
  Filled f = Look("pages", {{"table", {200}}, {"KV", {400, 64}}, {"Y", {200, 4, 64}}});
  const std::vector<int64_t> all = f.Of("table", DType::kI32);
  EXPECT_GE(*std::min_element(all.begin(), all.end()), 0);
  EXPECT_LT(*std::max_element(all.begin(), all.end()), 100);  // pages of 4 rows
  EXPECT_GT(std::set<int64_t>(all.begin(), all.end()).size(), 60u);
}

TEST(RandomInputs, PositionsStoredToDiffer) {
  Filled f = Look("scatter", {{"to", {50}}, {"X", {50}}, {"Y", {60}}});
  const std::vector<int64_t> all = f.Of("to", DType::kI32);
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 50u);
  EXPECT_LT(*std::max_element(all.begin(), all.end()), 60);
}

TEST(RandomInputs, OffsetsAscend) {
  Filled f = Look("ragged", {{"offsets", {9}}, {"X", {100}}, {"Y", {8}}});
  const std::vector<int64_t> all = f.Of("offsets", DType::kI32);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_GE(all.front(), 0);
  EXPECT_LE(all.back(), 100);
  EXPECT_GT(all.back(), all.front());
}

TEST(RandomInputs, DataTakesTheWholeRange) {
  Filled f = Look("nibbles",
                  {{"W", {500}}, {"Z", {500}}, {"low", {500}}, {"high", {500}}, {"sums", {500}}});
  const std::vector<int64_t> bytes = f.Of("W", DType::kU8);
  EXPECT_GT(*std::max_element(bytes.begin(), bytes.end()), 240);
  EXPECT_LT(*std::min_element(bytes.begin(), bytes.end()), 16);
  const std::vector<int64_t> words = f.Of("Z", DType::kI32);
  EXPECT_GT(*std::max_element(words.begin(), words.end()), 1 << 28);
  EXPECT_LT(*std::min_element(words.begin(), words.end()), -(1 << 28));
  EXPECT_TRUE(std::any_of(words.begin(), words.end(), [](int64_t n) { return n > -9 && n < 9; }));
}

TEST(RandomInputs, ConstantsAndLengthsOccur) {
  Filled f =
      Look("masked", {{"mask", {400}}, {"length", {40}}, {"X", {40, 400}}, {"Y", {40, 400}}});
  const std::vector<int64_t> mask = f.Of("mask", DType::kU8);
  EXPECT_GT(std::count(mask.begin(), mask.end(), 7), 50);
  EXPECT_LT(std::count(mask.begin(), mask.end(), 7), 200);
  const std::vector<int64_t> length = f.Of("length", DType::kI32);
  EXPECT_GE(*std::min_element(length.begin(), length.end()), 0);
  EXPECT_LE(*std::max_element(length.begin(), length.end()), 400);
  EXPECT_GT(std::set<int64_t>(length.begin(), length.end()).size(), 10u);
}

TEST(RandomInputs, TheSameEveryTime) {
  Filled f = Look("scatter", {{"to", {50}}, {"X", {50}}, {"Y", {60}}});
  EXPECT_EQ(f.Of("to", DType::kI32, 5), f.Of("to", DType::kI32, 5));
  EXPECT_NE(f.Of("to", DType::kI32, 5), f.Of("to", DType::kI32, 6));
}

}  // namespace
}  // namespace tilec::tools
