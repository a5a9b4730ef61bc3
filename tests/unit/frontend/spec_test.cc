// The reference means what it says: every ```tile snippet of language/spec.md loads and checks
// without an error, and every builtin stands in a snippet that has a test. tests/spec_run.sh runs
// those tests on the emulator.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cctype>

#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

// Text of the snippets that hold a test.
std::string TestedSnippets() {
  std::ifstream in(TILEC_SOURCE_DIR "/language/spec.md");
  std::string line, snippet, all;
  bool inside = false;
  while (std::getline(in, line)) {
    if (!inside && line.starts_with("```tile")) {
      inside = true;
      snippet.clear();
    } else if (inside && line == "```") {
      inside = false;
      if (snippet.find("\ntest \"") != std::string::npos) all += snippet;
    } else if (inside) {
      snippet += line + "\n";
    }
  }
  return all;
}

TEST(Spec, EveryBuiltinHasATestedExample) {
  const std::string text = TestedSnippets();
  const std::vector<std::string> names = BuiltinNames();
  ASSERT_GT(names.size(), 40u);
  for (const std::string& name : names) {
    bool found = false;
    for (size_t at = 0; !found && (at = text.find(name + "(", at)) != std::string::npos; ++at)
      found = at == 0 ||
              (!std::isalnum(static_cast<unsigned char>(text[at - 1])) && text[at - 1] != '_');
    EXPECT_TRUE(found) << "`" << name << "` stands in no snippet of spec.md that has a test";
  }
}

TEST(Spec, SnippetsCheck) {
  std::ifstream in(TILEC_SOURCE_DIR "/language/spec.md");
  ASSERT_TRUE(in) << "language/spec.md is missing";
  std::string line, snippet;
  int number = 0, start = 0, snippets = 0;
  bool inside = false;
  while (std::getline(in, line)) {
    ++number;
    if (!inside && (line == "```tile" || line == "```tile free")) {
      inside = true;
      start = number;
      snippet.clear();
    } else if (inside && line == "```") {
      inside = false;
      ++snippets;
      Loaded loaded(snippet, "spec.md, from line " + std::to_string(start + 1));
      EXPECT_TRUE(loaded.program) << loaded.errors();
      if (!loaded.program) continue;
      EXPECT_TRUE(Check(*loaded.program, loaded.diags).ok()) << loaded.errors();
      for (const TestInfo& test : loaded.program->tests())
        for (const TestCallInfo& call : test.calls)
          EXPECT_TRUE(loaded.Specialized(call.kernel, call.args)) << loaded.errors();
    } else if (inside) {
      snippet += line + "\n";
    }
  }
  EXPECT_GE(snippets, 20);
}

}  // namespace
}  // namespace tilec::frontend
