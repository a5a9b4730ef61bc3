// persist-tiles: every tile once, by whichever CTA and in whichever order.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ir/lower/sequential.h"
#include "ir/passes/persist_tiles.h"
#include "ir/warp_check/check.h"
#include "tests/unit/lower/helper.h"
#include "tests/unit/lower/product.h"

namespace tilec::ir {
namespace {

Function Persistent(const Function& fn, int64_t ctas) {
  Function out = fn;
  EXPECT_FALSE(PersistTiles(out, ctas));
  ExpectVerified(out);
  return out;
}

TEST(PersistTiles, EveryTileOnce) {
  const Function before = Product("%K");
  for (int64_t ctas : {1, 7, 132}) {
    const Function after = Persistent(before, ctas);
    for (int64_t m : {1, 300, 700})
      for (int64_t n : {32, 100})
        EXPECT_EQ(ProductOf(before, m, n, 64), ProductOf(after, m, n, 64))
            << ctas << " " << m << " " << n;
  }
}

// A loop of products that loads nothing has nothing that would run ahead.
TEST(PersistTiles, NotForPowersOfWhatATileHas) {
  const std::string text = ProductText("%K");
  const size_t from = text.find("        %a = load"), to = text.find("        %d = dot");
  const std::string loads = text.substr(from, to - from);
  const std::string begin = "      %c = for";
  Function fn = Parsed(With(With(text, loads, ""), begin,
                            With(With(loads, "%m, %k", "%m, %0"), "%n, %k", "%n, %0") + begin));
  EXPECT_TRUE(PersistTiles(fn, 4));
}

TEST(PersistTiles, NoTilesAtAll) {
  const Function before = Product("%K");
  EXPECT_EQ(ProductOf(Persistent(before, 4), 0, 64, 32), std::vector<double>());
}

// The tiles of a triangle: the longer, the larger m. 330 columns are 11 heads: of 5 tiles each, 4
// CTAs have sections of one head and four heads at the end, and of 1 tile of 4 and 11.
TEST(PersistTiles, EveryTileOnceWhereTheyTakeUnequallyLong) {
  const Function before = Product("%low");
  std::map<int64_t, Function> ordered;
  for (int64_t ctas : {1, 4, 11, 132}) {
    ordered.emplace(ctas, before);
    EXPECT_TRUE(OrderTiles(ordered.at(ctas), ctas));
    ExpectVerified(ordered.at(ctas));
  }
  for (int64_t m : {1, 300, 700})
    for (int64_t n : {32, 100, 330}) {
      const std::vector<double> expected = ProductOf(before, m, n, 640);
      for (const auto& [ctas, fn] : ordered)
        EXPECT_EQ(expected, ProductOf(fn, m, n, 640)) << ctas << " " << m << " " << n;
      for (int64_t ctas : {1, 2, 7, 132})
        EXPECT_EQ(expected, ProductOf(Persistent(before, ctas), m, n, 640))
            << ctas << " " << m << " " << n;
    }
}

// Of a symmetric matrix: a loop in front of the diagonal, and one behind it.
std::string BothSides(const std::string& begin) {
  const std::string text = ProductText("%m");
  const size_t from = text.find("      %c = for"), to = text.find("      %mend = ");
  std::string loop = text.substr(from, to - from);
  loop = With(loop, "%c = for %0, %m, %z", "%rest = for " + begin + ", %K, %c");
  for (const char* name : {"%a", "%bt", "%b", "%d", "%s", "%k"})
    for (const char* end : {" ", ",", ":", "\n"})
      if (const std::string word = std::string(name) + end; loop.find(word) != std::string::npos)
        loop = With(loop, word, std::string(name) + "2" + end);
  return With(text.substr(0, to) + loop + text.substr(to), "store %C, %c", "store %C, %rest");
}

// Tiles take equally long together: they stay, in no particular order.
TEST(PersistTiles, LoopsThatGrowAsOthersShrink) {
  const Function before = Parsed(BothSides("%m"));
  const Function after = Persistent(before, 7);
  for (const auto& [m, n] : {std::pair{128, 32}, {320, 100}, {300, 40}})
    EXPECT_EQ(ProductOf(before, m, n, 320), ProductOf(after, m, n, 320)) << m << " " << n;
  Function ordered = before;
  EXPECT_FALSE(OrderTiles(ordered, 7));
}

// The second shrinks by half of what the first grows by.
TEST(PersistTiles, NotWhereTheyDoNotMakeUpForEachOther) {
  Function fn = Parsed(With(BothSides("%m"), "%K, %c {step = 32}", "%K, %c {step = 64}"));
  EXPECT_TRUE(PersistTiles(fn, 7));
}

// Number of a scalar of the function, whose only params are M, N and K, with block arguments given.
int64_t NumberOf(const Function& fn, ValueId v, std::map<ValueId, int64_t>& given) {
  if (const auto it = given.find(v); it != given.end()) return it->second;
  const Op& op = *fn.def(v);
  auto x = [&](size_t i) { return NumberOf(fn, op.operands[i], given); };
  switch (op.kind) {
    case OpKind::kConstant: return static_cast<int64_t>(op.number("value"));
    case OpKind::kCast: return x(0);
    case OpKind::kAdd: return x(0) + x(1);
    case OpKind::kSub: return x(0) - x(1);
    case OpKind::kMul: return x(0) * x(1);
    case OpKind::kDiv: return x(0) / x(1);
    case OpKind::kMod: return x(0) % x(1);
    case OpKind::kMin: return std::min(x(0), x(1));
    case OpKind::kMax: return std::max(x(0), x(1));
    case OpKind::kCmp: EXPECT_EQ(op.s("pred"), "le"); return x(0) <= x(1);
    case OpKind::kSelect: return x(0) ? x(1) : x(2);
    default: ADD_FAILURE() << Info(op.kind).mnemonic; return 0;
  }
}

// Turns of the loop over k of all tiles that each CTA takes, in steps of 64.
std::vector<int64_t> TurnsOfCtas(const Function& fn, int64_t ctas, int64_t m, int64_t n) {
  std::vector<OpId> loops;
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kFor) loops.push_back(id);
  EXPECT_EQ(loops.size(), 2u);
  const Op &tiles = fn.ops[loops[0]], &turns = fn.ops[loops[1]];
  const OpId grid = fn.blocks[tiles.block].parent;
  std::vector<int64_t> all;
  for (int64_t cta = 0; cta < ctas; ++cta) {
    std::map<ValueId, int64_t> given;
    for (const Param& p : fn.params)
      if (p.kind == ParamKind::kDim) given[p.value] = p.name == "M" ? m : p.name == "N" ? n : m;
    given[fn.blocks[fn.ops[grid].regions[0]].args[0]] = cta;
    int64_t sum = 0;
    const int64_t end = NumberOf(fn, tiles.operands[1], given);
    for (int64_t t = cta; t < end; t += tiles.i("step")) {
      given[fn.blocks[tiles.regions[0]].args[0]] = t;
      sum += NumberOf(fn, turns.operands[1], given) / 64;
    }
    all.push_back(sum);
  }
  return all;
}

// 16 · 64 tiles of 1 to 16 turns on 132 multiprocessors: 8704 turns, 66 for each. Dealt out in
// rounds of one direction the first would get 72.
TEST(PersistTiles, LongTilesAreDealtBackAndForth) {
  const Function fn = Persistent(Product("%low"), 132);
  const std::vector<int64_t> turns = TurnsOfCtas(fn, 132, 16 * 64, 64 * 32);
  EXPECT_EQ(std::accumulate(turns.begin(), turns.end(), int64_t{0}), 8704);
  EXPECT_LE(*std::max_element(turns.begin(), turns.end()), 68);
}

// Tiles have numbers of 32 bits; a launch of more is refused as a fact of the kernel is.
// Different rows and columns of the first `ctas` tiles: by the places of what the loop over k
// loads.
std::pair<size_t, size_t> FirstRound(const Function& fn, int64_t ctas, int64_t m, int64_t n) {
  OpId tiles;
  std::vector<OpId> loads;
  for (OpId id : OpsInOrder(fn)) {
    if (fn.ops[id].kind == OpKind::kFor && !tiles.valid()) tiles = id;
    if (fn.ops[id].kind == OpKind::kLoad) loads.push_back(id);
  }
  EXPECT_EQ(loads.size(), 2u);
  std::set<int64_t> rows, columns;
  for (int64_t cta = 0; cta < ctas; ++cta) {
    std::map<ValueId, int64_t> given;
    for (const Param& p : fn.params)
      if (p.kind == ParamKind::kDim) given[p.value] = p.name == "M" ? m : p.name == "N" ? n : 64;
    given[fn.blocks[fn.ops[tiles].regions[0]].args[0]] = cta;
    rows.insert(NumberOf(fn, fn.ops[loads[0]].operands[1], given));
    columns.insert(NumberOf(fn, fn.ops[loads[1]].operands[1], given));
  }
  return {rows.size(), columns.size()};
}

// Rows are twice as many bytes as columns: of 132 tiles 8 rows and 16.5 columns are fewest bytes.
// 18 rows are two sections of 9, not 8, 8 and 2; 12 are one and 13 two.
TEST(PersistTiles, SectionsAreEquallyHighAndNearTheBest) {
  const Function fn = Persistent(Product("%K"), 132);
  EXPECT_EQ(FirstRound(fn, 132, 16 * 64, 64 * 32), std::pair(size_t{8}, size_t{17}));
  EXPECT_EQ(FirstRound(fn, 132, 18 * 64, 64 * 32), std::pair(size_t{9}, size_t{15}));
  EXPECT_EQ(FirstRound(fn, 132, 11 * 64, 64 * 32), std::pair(size_t{11}, size_t{12}));
  EXPECT_EQ(FirstRound(fn, 132, 13 * 64, 64 * 32), std::pair(size_t{7}, size_t{19}));
  // A round covers all of so few columns: no section ends inside of it.
  EXPECT_EQ(FirstRound(fn, 132, 99 * 64, 12 * 32), std::pair(size_t{11}, size_t{12}));
}

TEST(PersistTiles, TilesAreFewEnoughToCountInHalfAWord) {
  const Function fn = Persistent(Product("%K"), 132);
  ASSERT_EQ(fn.facts.size(), 1u);
  EXPECT_EQ(Eval(fn.facts[0].condition, {{"M", 64 << 15}, {"N", 32 << 15}, {"K", 1}}), 1);
  EXPECT_EQ(Eval(fn.facts[0].condition, {{"M", 64 << 16}, {"N", 32 << 15}, {"K", 1}}), 0);
}

TEST(PersistTiles, LengthsThatFollowNoOrderStay) {
  Function fn = Product("%low", "%low = min %me, %K", "%low = mod %me, %K");
  const std::string before = Print(fn);
  EXPECT_FALSE(OrderTiles(fn, 4));
  const std::optional<Obstacle> obstacle = PersistTiles(fn, 132);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->why.substr(0, 11), "tiles take ");
  EXPECT_EQ(Print(fn), before);
}

TEST(PersistTiles, EqualTilesNeedNoOrder) {
  Function fn = Product("%K");
  const std::string before = Print(fn);
  EXPECT_FALSE(OrderTiles(fn, 4));
  EXPECT_EQ(Print(fn), before);
}

TEST(PersistTiles, NothingToGainWithoutALoopOfProducts) {
  Function fn = Product("%K", "dot %a, %bt, %s", "add %s, %s");
  const std::string before = Print(fn);
  const std::optional<Obstacle> obstacle = PersistTiles(fn, 132);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->why.substr(0, 10), "it has no ");
  EXPECT_EQ(Print(fn), before);
}

// The load role goes on to the next tile; the proof holds for all numbers of tiles and turns.
TEST(PersistTiles, RolesAcrossTilesAreProved) {
  EXPECT_EQ(Said(InRoles(Persistent(Product("%K"), 132))), "");
}

}  // namespace
}  // namespace tilec::ir
