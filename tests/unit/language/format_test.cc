// The formatter: canonical layout, comments, idempotence, and that it never changes the tree.
//
// SPDX-License-Identifier: Apache-2.0
#include "language/format.h"

#include <gtest/gtest.h>

#include "tests/unit/language/parse_helper.h"

namespace tilec::language {
namespace {

// Formats, and checks the properties that hold for every text.
std::string Formatted(const std::string& text) {
  const Parsed first(text);
  EXPECT_TRUE(first.ok()) << first.errors();
  const std::string once = first.format();
  const Parsed second(once);
  EXPECT_TRUE(second.ok()) << second.errors() << once;
  EXPECT_EQ(first.dump(), second.dump());
  EXPECT_EQ(second.format(), once);
  if (first.ok() && second.ok()) {
    EXPECT_EQ(first.ast->comments.size(), second.ast->comments.size()) << once;
  }
  return once;
}

TEST(Format, KernelLayout) {
  EXPECT_EQ(Formatted("kernel k( A:bf16[M,2*N],C:out f32[M] )where M>0,N in{1,2}{tune B=1 in 1..4 "
                      "step 1;parallel m in tiles(M,B){C[m]=A[m,0;fill=1.0]as f32}}"),
            "kernel k(A: bf16[M, 2 * N], C: out f32[M])\n"
            "  where M > 0, N in {1, 2}\n"
            "{\n"
            "  tune B = 1 in 1..4 step 1\n"
            "  parallel m in tiles(M, B) {\n"
            "    C[m] = A[m, 0; fill = 1.0] as f32\n"
            "  }\n"
            "}\n");
}

TEST(Format, KeepsSingleBlankLines) {
  EXPECT_EQ(Formatted("const A = 1\nconst B = 2\n\n\n\nconst C = 3\nkernel k() {\n\n\n  let x = "
                      "1\n\n\n  let y = 2\n\n}"),
            "const A = 1\nconst B = 2\n\nconst C = 3\n\nkernel k() {\n  let x = 1\n\n  let y = "
            "2\n}\n");
}

TEST(Format, KeepsCommentsWhereTheyAre) {
  const std::string text =
      "// head\n"
      "\n"
      "import \"std/a\"  // why\n"
      "\n"
      "// about k\n"
      "kernel k(A: f32[M],  // a\n"
      "         // own line\n"
      "         B: f32[N])\n"
      "  where M > 0,  // mm\n"
      "        N > 0  // nn\n"
      "{\n"
      "  // first\n"
      "  let x = 1  // trailing\n"
      "\n"
      "  if a {  // then\n"
      "    x = 1\n"
      "    // last\n"
      "  } else {\n"
      "    x = 2\n"
      "  }\n"
      "}\n"
      "// end\n";
  EXPECT_EQ(Formatted(text), text);
}

TEST(Format, HoistsCommentsThatHaveNoPlace) {
  EXPECT_EQ(Formatted("kernel k() {\n  let x = 1 + // one\n    2 // two\n}\n"),
            "kernel k() {\n  // one\n  let x = 1 + 2  // two\n}\n");
  EXPECT_EQ(Formatted("kernel k() {\n  #[a] // pin\n  #[b]\n  let x = /* v */ 1\n}\n"),
            "kernel k() {\n  // pin\n  /* v */\n  #[a, b]\n  let x = 1\n}\n");
}

TEST(Format, BreaksLongLinesWhereAStatementCannotEnd) {
  const std::string out = Formatted(
      "kernel k() {\n  let value = some_function_name(first_argument, second_argument) + "
      "another_function(third_argument, fourth_argument) - yet_another_name * factor\n}\n");
  EXPECT_EQ(out,
            "kernel k() {\n"
            "  let value = some_function_name(first_argument, second_argument) +\n"
            "              another_function(third_argument, fourth_argument) - yet_another_name * "
            "factor\n"
            "}\n");
}

TEST(Format, KeepsParenthesesAndLiterals) {
  const std::string text = "const A = (p as bf16) @ ((v)) + 0x1F + 1_000 + (1e6) * \"a\\n\"\n";
  EXPECT_EQ(Formatted(text), "const A = (p as bf16) @ (v) + 0x1F + 1_000 + (1e6) * \"a\\n\"\n");
}

TEST(Format, Tests) {
  EXPECT_EQ(Formatted("test \"a\"{gemm(M=3)~1e-2}"), "test \"a\" { gemm(M = 3) ~ 1e-2 }\n");
  EXPECT_EQ(Formatted("test \"a\"{gemm(M=3);gemm(M=4)~0.1}"),
            "test \"a\" {\n  gemm(M = 3)\n  gemm(M = 4) ~ 0.1\n}\n");
}

TEST(Format, ShortFnsStayOnOneLine) {
  EXPECT_EQ(Formatted("fn f(x:f32)->f32{return x}\nfn g(x: f32) -> f32 {\n return x }\nfn h() { "
                      "return 1 }"),
            "fn f(x: f32) -> f32 { return x }\n\nfn g(x: f32) -> f32 {\n  return x\n}\n\nfn h() { "
            "return 1 }\n");
}

TEST(Format, EmptyAndCommentOnlyFiles) {
  EXPECT_EQ(Formatted(""), "");
  EXPECT_EQ(Formatted("\n\n// a\n\n\n// b"), "// a\n\n// b\n");
  EXPECT_EQ(Formatted("kernel k() { }\n"), "kernel k() {}\n");
}

}  // namespace
}  // namespace tilec::language
