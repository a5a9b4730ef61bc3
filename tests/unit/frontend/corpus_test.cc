// Every kernel file of the tree: it checks without a diagnostic, and every call of its tests
// specialises to IR that the verifier accepts.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

namespace fs = std::filesystem;

void CheckFolder(const std::string& folder, size_t at_least) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(TILEC_SOURCE_DIR "/" + folder))
    if (entry.path().extension() == ".tile") files.push_back(entry.path());
  std::ranges::sort(files);
  EXPECT_GE(files.size(), at_least);
  for (const fs::path& path : files) {
    const std::string name = folder + "/" + path.filename().string();
    Loaded loaded(*ReadWhole(path.string()), name);
    ASSERT_TRUE(loaded.program) << loaded.errors();
    EXPECT_TRUE(Check(*loaded.program, loaded.diags).ok()) << loaded.errors();
    EXPECT_EQ(loaded.codes(), "") << loaded.errors();
    for (const TestInfo& test : loaded.program->tests())
      for (const TestCallInfo& call : test.calls) {
        loaded.diags.Clear();
        EXPECT_TRUE(loaded.Specialized(call.kernel, call.args))
            << name << ", test \"" << test.name << "\"\n"
            << loaded.errors();
      }
  }
}

TEST(Corpus, StandardLibrary) { CheckFolder("stdlib", 8); }
TEST(Corpus, KernelTests) { CheckFolder("tests/exec", 8); }

}  // namespace
}  // namespace tilec::frontend
