// What Simplify makes of an expression has its value wherever it has one, and no number that could
// be counted out is left in it.
//
// SPDX-License-Identifier: Apache-2.0
#include "support/expr.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace tilec {
namespace {

Expr Parsed(const std::string& text) {
  const auto e = ParseExpr(text);
  EXPECT_TRUE(e) << text;
  return e.value_or(Expr());
}
std::string Simple(const std::string& text, const Bindings& names = {}) {
  return ToText(Simplify(Parsed(text), names));
}

TEST(Simplify, CountsOutWhatIsKnown) {
  EXPECT_EQ(Simple("(2 + 3) * M"), "(5 * M)");
  EXPECT_EQ(Simple("(N + 127) / 128 * M", {{"N", 300}}), "(3 * M)");
  EXPECT_EQ(Simple("(N + 127) / 128 * M", {{"N", 300}, {"M", 2}}), "6");
  EXPECT_EQ(Simple("not (N == 3)", {{"N", 3}}), "0");
  EXPECT_EQ(Simple("max(0, ceildiv(M - 0, 16))"), "max(0, ceildiv((M - 0), 16))");
}

TEST(Simplify, LeavesWhatHasNoValue) {
  EXPECT_EQ(Simple("(4 / (N - 3)) + M", {{"N", 3}}), "((4 / 0) + M)");
  const Expr most = Expr::Const(std::numeric_limits<int64_t>::max());
  const Expr sum = Expr::Make(Expr::Op::kAdd, most, Expr::Const(1));
  EXPECT_EQ(Simplify(sum), sum);
}

TEST(Simplify, KeepsValues) {
  uint64_t state = 7;
  const auto below = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  const auto made = [&](const auto& self, int depth) -> Expr {
    if (depth == 0 || below(4) == 0)
      return below(2) == 0 ? Expr::Const(static_cast<int64_t>(below(9)) - 4)
                           : Expr::Name(std::string(1, "ABC"[below(3)]));
    const auto op = static_cast<Expr::Op>(static_cast<uint64_t>(Expr::Op::kAdd) +
                                          below(static_cast<uint64_t>(Expr::Op::kNot) -
                                                static_cast<uint64_t>(Expr::Op::kAdd) + 1));
    if (op == Expr::Op::kNot) return Expr::Not(self(self, depth - 1));
    Expr left = self(self, depth - 1);
    return Expr::Make(op, std::move(left), self(self, depth - 1));
  };
  const Bindings some = {{"A", 3}, {"B", -2}}, all = {{"A", 3}, {"B", -2}, {"C", 5}};
  for (int i = 0; i < 2000; ++i) {
    const Expr e = made(made, 5);
    const auto value = Eval(e, all);
    EXPECT_EQ(Eval(Simplify(e, some), all), value) << ToText(e);
    if (value) {
      EXPECT_EQ(Simplify(e, all), Expr::Const(*value)) << ToText(e);
    }
    const auto known = Eval(e, some);
    EXPECT_EQ(Simplify(e, some).is_const(), known.has_value()) << ToText(e);
  }
}

}  // namespace
}  // namespace tilec
