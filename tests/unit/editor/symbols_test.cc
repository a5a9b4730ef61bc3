// SPDX-License-Identifier: Apache-2.0
#include "editor/symbols.h"

#include <gtest/gtest.h>

#include "language/parse.h"
#include "support/diag.h"

namespace tilec::editor {
namespace {

class Symbols : public testing::Test {
 protected:
  void Read(const std::string& text) {
    text_ = text;
    DiagSink diags;
    const int32_t file = sources_.Add("a.tile", text);
    auto ast = language::Parse(sources_, file, diags);
    ASSERT_TRUE(ast.ok()) << RenderAll(diags, sources_);
    table_ = BuildSymbols(*ast, text_);
  }
  // "let x: 3 5" of the symbol at the n-th mention of `name`: kind, and the lines that mention it.
  std::string Of(const std::string& name, int mention = 0) {
    size_t at = text_.find(name);
    for (int i = 0; i < mention; ++i) at = text_.find(name, at + 1);
    const Symbol* symbol = table_.At(static_cast<uint32_t>(at));
    if (!symbol) return "none";
    std::string out = std::string(Spelling(symbol->kind)) + " " + symbol->name + ":";
    for (const Span& use : symbol->uses) {
      EXPECT_EQ(text_.substr(use.begin, use.end - use.begin), symbol->name);
      out += " " + std::to_string(sources_.Locate(0, use.begin).line);
    }
    return out;
  }
  SourceMap sources_;
  std::string text_;
  SymbolTable table_;
};

TEST_F(Symbols, EveryKindAndItsUses) {
  Read(
      "const TWO = 2\n"
      "fn twice(x: f32) -> f32 { return x * TWO }\n"
      "kernel k(A: f32[N], s: f32, C: out f32[N]) {\n"
      "  tune B = 64\n"
      "  parallel n in tiles(N, B) {\n"
      "    let a = twice(s)\n"
      "    var b = A[n] * (a)\n"
      "    b += a\n"
      "    C[n] = b\n"
      "  }\n"
      "}\n"
      "test \"t\" { k(N = 10, s = 1.0) }\n");
  EXPECT_EQ(Of("TWO"), "const TWO: 1 2");
  EXPECT_EQ(Of("twice"), "fn twice: 2 6");
  EXPECT_EQ(Of("k("), "kernel k: 3 12");
  EXPECT_EQ(Of("A:"), "tensor A: 3 7");
  EXPECT_EQ(Of("N]"), "dim N: 3 3 5 12");
  EXPECT_EQ(Of("s: f32"), "parameter s: 3 6 12");
  EXPECT_EQ(Of("B ="), "tune B: 4 5");
  EXPECT_EQ(Of("n in"), "range n: 5 7 9");
  EXPECT_EQ(Of("a = twice"), "let a: 6 7 8") << "parentheses are no part of the name";
  EXPECT_EQ(Of("b = A"), "var b: 7 8 9");
}

TEST_F(Symbols, InnerNamesHideOuterOnes) {
  Read(
      "kernel k(A: f32[N], C: out f32[N]) {\n"
      "  parallel n in tiles(N, 64) {\n"
      "    let x = A[n]\n"
      "    for i in 0..4 {\n"
      "      let x = x + 1.0\n"
      "      C[n] = x\n"
      "    }\n"
      "    C[n] = x\n"
      "  }\n"
      "}\n");
  EXPECT_EQ(Of("x = A"), "let x: 3 5 8");
  EXPECT_EQ(Of("x = x"), "let x: 5 6");
}

}  // namespace
}  // namespace tilec::editor
