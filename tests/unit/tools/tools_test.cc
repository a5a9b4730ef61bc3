// The parts of the command line that need no process of their own: assignments, completion scripts,
// and the merged table of diagnostics.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>

#include "tools/assignments.h"
#include "tools/commands.h"
#include "tools/session.h"

namespace tilec::tools {
namespace {

TEST(Diagnostics, CodesAreUniqueSortedAndExplained) {
  const std::vector<const DiagDef*> all = AllDiagnostics();
  ASSERT_GT(all.size(), 150u);
  int unexplained = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string code = all[i]->code;
    ASSERT_EQ(code.size(), 4u) << code;
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(code[0]))) << code;
    if (i > 0) {
      EXPECT_LT(std::string(all[i - 1]->code), code);
    }
    if (std::string(all[i]->explain).size() < 10) ++unexplained;
    EXPECT_FALSE(std::string(all[i]->format).empty()) << code;
    EXPECT_NE(std::string(all[i]->format).back(), '.') << code;
  }
  EXPECT_LE(unexplained, 49) << "rows without a long text may only become fewer";
}

TEST(Assignments, ValuesKeepTheirKind) {
  DiagSink diags;
  const auto a = ParseAssignments(
      {"N=512", "s=-0.5", "c=true", "h=0x10", "i=-inf", "e=1e-3", "A=@dir/x=y.npy", "z=-7"}, diags);
  ASSERT_TRUE(a.ok()) << RenderAll(diags, SourceMap());
  EXPECT_EQ(std::get<int64_t>(a->values.at("N")), 512);
  EXPECT_EQ(std::get<double>(a->values.at("s")), -0.5);
  EXPECT_EQ(std::get<bool>(a->values.at("c")), true);
  EXPECT_EQ(std::get<int64_t>(a->values.at("h")), 16);
  EXPECT_EQ(std::get<double>(a->values.at("i")), -INFINITY);
  EXPECT_EQ(std::get<double>(a->values.at("e")), 1e-3);
  EXPECT_EQ(std::get<int64_t>(a->values.at("z")), -7);
  EXPECT_EQ(a->files.at("A"), "dir/x=y.npy");
}

TEST(Assignments, WhatIsNoAssignment) {
  for (const char* word : {"N", "=3", "3N=1", "N M=1", "N=", "N=1x", "N=nan", "N=1 2",
                           "N=99999999999999999999", "N=1e999", "N=0x"}) {
    DiagSink diags;
    const auto a = ParseAssignments({word}, diags);
    // An integer beyond 64 bits is read as the float it would be.
    if (std::string(word) == "N=99999999999999999999") {
      EXPECT_TRUE(a.ok());
      continue;
    }
    EXPECT_FALSE(a.ok()) << word;
    EXPECT_EQ(diags.all().size(), 1u) << word;
  }
}

TEST(Completion, EveryShellKnowsCommandsAndOptions) {
  const std::vector<CommandWords> words = {{"run", "run it", {"--check", "--device"}, true},
                                           {"cache", "look", {"--cache-dir"}, false}};
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = CompletionScript(shell, words);
    EXPECT_NE(script.find("run"), std::string::npos) << shell;
    EXPECT_NE(script.find("cache-dir"), std::string::npos) << shell;
  }
  EXPECT_EQ(CompletionScript("tcsh", words), "");
}

TEST(ManPage, HidesNothingFromRoff) {
  const std::string page =
      ManPage("0.2.0", "tilec: compiles", {{"run", "run it", {"--check"}, true, {".a\\b"}}});
  EXPECT_NE(page.find("\ntilec \\- compiles\n"), std::string::npos) << page;
  EXPECT_NE(page.find(".SS run\nrun it\n.TP\n.B \\-\\-check\n\\&.a\\eb\n"), std::string::npos)
      << page;
}

TEST(Words, Durations) {
  EXPECT_EQ(Duration(0.0123), "12 us");
  EXPECT_EQ(Duration(12.34), "12.3 ms");
  EXPECT_EQ(Duration(1234), "1.23 s");
}

TEST(Words, KernelBehindTheLastColon) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(SplitKernel("a.tile:k"), Pair("a.tile", "k"));
  EXPECT_EQ(SplitKernel("a.tile"), Pair("a.tile", ""));
  EXPECT_EQ(SplitKernel("a:b.tile:k"), Pair("a:b.tile", "k"));
  EXPECT_EQ(SplitKernel(":"), Pair("", ""));
}

}  // namespace
}  // namespace tilec::tools
