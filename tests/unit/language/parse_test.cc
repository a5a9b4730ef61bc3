// Precedence and the shape of trees.
//
// SPDX-License-Identifier: Apache-2.0
#include "language/parse.h"

#include <gtest/gtest.h>

#include "tests/unit/language/parse_helper.h"

namespace tilec::language {
namespace {

// The dump of an expression.
std::string Tree(const std::string& expr) {
  const Parsed p("const X = " + expr + "\n");
  const std::string dump = p.dump();
  const std::string head = "const X: _ = ";
  if (!dump.starts_with(head)) return dump;
  return dump.substr(head.size(), dump.size() - head.size() - 1);
}

// The dump of statements in a kernel.
std::string Statements(const std::string& text) {
  const std::string dump = Parsed("kernel k() {\n" + text + "\n}\n").dump();
  return dump.starts_with("kernel k\n") ? dump.substr(9) : dump;
}

TEST(Parse, PrecedenceLooseToTight) {
  EXPECT_EQ(Tree("a or b and c"), "(or a (and b c))");
  EXPECT_EQ(Tree("not a and b"), "(and (not a) b)");
  EXPECT_EQ(Tree("not a == b"), "(not (== a b))");
  EXPECT_EQ(Tree("a == b + c"), "(== a (+ b c))");
  EXPECT_EQ(Tree("a..b + 1"), "(.. a (+ b 1))");
  EXPECT_EQ(Tree("a..b == c"), "(== (.. a b) c)");
  EXPECT_EQ(Tree("a + b * c - d"), "(- (+ a (* b c)) d)");
  EXPECT_EQ(Tree("a @ b * c % d / e"), "(/ (% (* (@ a b) c) d) e)");
  EXPECT_EQ(Tree("-a * b"), "(* (- a) b)");
  EXPECT_EQ(Tree("a * -b"), "(* a (- b))");
  EXPECT_EQ(Tree("-a as f32"), "(- (as f32 a))");
  EXPECT_EQ(Tree("a @ b as bf16"), "(@ a (as bf16 b))");
  EXPECT_EQ(Tree("a as i32 as f32"), "(as f32 (as i32 a))");
  EXPECT_EQ(Tree("a.T[0]"), "(index (. a T) 0)");
  EXPECT_EQ(Tree("a - b - c"), "(- (- a b) c)");
  EXPECT_EQ(Tree("not not a"), "(not (not a))");
  EXPECT_EQ(Tree("- -a"), "(- (- a))");
}

TEST(Parse, Postfix) {
  EXPECT_EQ(Tree("A[m, k, 3, :, None]"), "(index A m k 3 : None)");
  EXPECT_EQ(Tree("A[m, k; fill = -inf]"), "(index A m k fill=(- inf))");
  EXPECT_EQ(Tree("max(x, axis = 1)"), "(call max x axis=1)");
  EXPECT_EQ(Tree("f()"), "(call f)");
  EXPECT_EQ(Tree("(a + b)[:, None].T"), "(. (index '(+ a b) : None) T)");
  EXPECT_EQ(Tree("((a))"), "'a");
}

TEST(Parse, IfExpression) {
  EXPECT_EQ(Tree("if a { b } else if c { d } else { e }"), "(if a b c d e)");
  EXPECT_EQ(Tree("if a {\n  b\n} else {\n  c\n}"), "(if a b c)");
  EXPECT_EQ(Tree("f(if a { b } else { c })"), "(call f (if a b c))");
}

TEST(Parse, Literals) {
  EXPECT_EQ(Tree("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(Tree("0xff"), "255");
  EXPECT_EQ(Tree("0b101"), "5");
  EXPECT_EQ(Tree("1_000"), "1000");
  EXPECT_EQ(Tree("1.5e-3"), "f0.0015");
  EXPECT_EQ(Tree("\"a\\n\\\"\""), "\"a\n\"\"");
}

TEST(Parse, StatementsAndPins) {
  EXPECT_EQ(Statements("let a: f32[B] = 0; var b = 1"), "  let a: f32[B] = 0\n  var b: _ = 1\n");
  EXPECT_EQ(Statements("C[m] += x"), "  (index C m) += x\n");
  EXPECT_EQ(Statements("#[depth = 3, flag]\nfor k in 0..n step 2 { }"),
            "  pin depth = 3\n  pin flag\n  for k (.. 0 n step=2)\n");
  EXPECT_EQ(Statements("tune B = 2 in {1, 2}\nwhere B > 1, B in 1..4 step 1\nlet x = 1"),
            "  tune B = 2 in (set 1 2)\n  where (> B 1) (in B (.. 1 4 step=1))\n"
            "  let x: _ = 1\n");
  EXPECT_EQ(Statements("if a { x = 1 } else if b { x = 2 } else { x = 3 }"),
            "  if a\n    x = 1\n  if b\n    x = 2\n  else\n    x = 3\n");
  EXPECT_EQ(Statements("while a < b { a += 1 }"), "  while (< a b)\n    a += 1\n");
  EXPECT_EQ(Statements("atomic_add(C[m, n], x)"), "  (call atomic_add (index C m n) x)\n");
  EXPECT_EQ(Statements("parallel a in tiles(N, 8), b in 0..2 { }"),
            "  parallel a (call tiles N 8) b (.. 0 2)\n");
}

TEST(Parse, SoftWordsAreNames) {
  EXPECT_EQ(Statements("let step = out + test"), "  let step: _ = (+ out test)\n");
  EXPECT_EQ(Parsed("kernel k(out: out f32[M], test: inout f32[M] strided(any)) { }").dump(),
            "kernel k\nparam out: out f32[M]\nparam test: inout f32[M] strided(any)\n");
}

TEST(Parse, SpansPointAtTheText) {
  const Parsed p("const X = (a + b) * 2");
  ASSERT_TRUE(p.ok());
  const ConstItem& item = *p.ast->item(p.ast->items[0]).As<ConstItem>();
  const Expr& product = p.ast->expr(item.value);
  EXPECT_EQ(p.sources.TextOf(product.span), "(a + b) * 2");
  EXPECT_EQ(p.sources.TextOf(p.ast->expr(product.As<BinaryExpr>()->lhs).span), "(a + b)");
  EXPECT_EQ(p.sources.TextOf(product.As<BinaryExpr>()->op_span), "*");
  EXPECT_EQ(p.sources.TextOf(p.ast->item(p.ast->items[0]).span).substr(0, 7), "const X");
}

std::string Repeat(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

TEST(Parse, NestingIsBounded) {
  for (const char* open : {"(", "-", "not ", "f(", "a[", "if a { "}) {
    const Parsed p("const X = " + Repeat(open, 100000));
    EXPECT_FALSE(p.ok());
    EXPECT_LE(p.diags.errors(), kMaxSyntaxErrors);
  }
  EXPECT_FALSE(Parsed("const X = a" + Repeat(" + a", 1000)).ok());
  EXPECT_FALSE(Parsed("const X = a" + Repeat(".T", 1000)).ok());
  EXPECT_FALSE(Parsed("const X = a" + Repeat(" as f32", 1000)).ok());
  EXPECT_FALSE(Parsed("kernel k() {" + Repeat("for i in 0..2 {\n", 1000)).ok());
  EXPECT_TRUE(Parsed("const X = a" + Repeat(" + a", 150)).ok());
  EXPECT_TRUE(Parsed("const X = " + Repeat("(", 150) + "1" + Repeat(")", 150)).ok());
  const Parsed chain("kernel k() {\nif a { }" + Repeat(" else if a { }", 5000) + "\n}\n");
  EXPECT_TRUE(chain.ok()) << chain.errors();
}

TEST(Parse, ReportsSeveralErrorsButNotTooMany) {
  const Parsed two("kernel k() {\n  let x\n  let y = 3 +\n}\nkernel l() {\n  var z\n}\n");
  EXPECT_EQ(two.diags.errors(), 3) << two.errors();
  const Parsed many("kernel k() {\n" + Repeat("  let x\n", 100) + "}\n");
  EXPECT_EQ(many.diags.errors(), kMaxSyntaxErrors);
}

}  // namespace
}  // namespace tilec::language
