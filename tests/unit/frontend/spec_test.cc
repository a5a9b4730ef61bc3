// The reference means what it says: every ```tile snippet of language/spec.md loads and checks
// without an error.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

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
