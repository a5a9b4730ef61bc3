// The reference is kept true: every ```tile snippet of language/spec.md is a file that parses, and
// is laid out as the formatter would (those marked `free` only parse).
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/unit/language/parse_helper.h"

namespace tilec::language {
namespace {

TEST(Spec, SnippetsParseAndAreFormatted) {
  std::ifstream in(TILEC_SOURCE_DIR "/language/spec.md");
  ASSERT_TRUE(in) << "language/spec.md is missing";
  std::string line, snippet;
  int number = 0, start = 0, snippets = 0;
  bool inside = false, free = false;
  while (std::getline(in, line)) {
    ++number;
    if (!inside && (line == "```tile" || line == "```tile free")) {
      inside = true;
      free = line.ends_with("free");
      start = number;
      snippet.clear();
    } else if (inside && line == "```") {
      inside = false;
      ++snippets;
      const Parsed parsed(snippet, "spec.md, from line " + std::to_string(start + 1));
      EXPECT_TRUE(parsed.ok()) << parsed.errors();
      if (!free) {
        EXPECT_EQ(parsed.format(), snippet) << "language/spec.md:" << start;
      }
    } else if (inside) {
      snippet += line + "\n";
    }
  }
  EXPECT_FALSE(inside) << "snippet without end at line " << start;
  EXPECT_GE(snippets, 20);
}

}  // namespace
}  // namespace tilec::language
