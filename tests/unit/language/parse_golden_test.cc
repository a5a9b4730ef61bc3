// Syntax diagnostics, whole text: each tests/golden/parse/*.tile holds a program and, at its end in
// lines `//| …`, the diagnostics it must give. UPDATE_GOLDEN=1 rewrites them. Every L code must
// occur in some file.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "language/diagnostics.h"
#include "tests/unit/language/parse_helper.h"

namespace tilec::language {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string AsComments(const std::string& text) {
  std::istringstream in(text);
  std::string line, out;
  while (std::getline(in, line)) out += line.empty() ? "//|\n" : "//| " + line + "\n";
  return out;
}

TEST(ParseGolden, Diagnostics) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(TILEC_SOURCE_DIR "/tests/golden/parse"))
    if (entry.path().extension() == ".tile") files.push_back(entry.path());
  std::ranges::sort(files);
  ASSERT_GE(files.size(), 20u);
  std::set<std::string> seen;
  for (const fs::path& path : files) {
    const std::string whole = ReadFile(path);
    size_t cut = whole.find("\n//| ");
    cut = cut == std::string::npos ? whole.size() : cut + 1;
    const std::string input = whole.substr(0, cut), expected = whole.substr(cut);
    const Parsed parsed(input, path.filename().string());
    const std::string got = AsComments(parsed.errors());
    for (const Diagnostic& d : parsed.diags.all()) seen.insert(d.def->code);
    EXPECT_FALSE(parsed.ok()) << path << " parses: it shows no diagnostic";
    if (got != expected && std::getenv("UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path, std::ios::binary) << input << got;
      continue;
    }
    EXPECT_EQ(got, expected) << path << "\nif this is intended: UPDATE_GOLDEN=1 language_test";
  }
  // A file of 16 MiB is not worth storing.
  seen.insert(kFileTooLarge.code);
  for (const DiagDef* def : kDiags)
    EXPECT_TRUE(seen.contains(def->code)) << "no golden file shows " << def->code;
}

TEST(ParseGolden, FileTooLarge) {
  const Parsed parsed(std::string((16 << 20) + 1, ' '));
  EXPECT_FALSE(parsed.ok());
  ASSERT_EQ(parsed.diags.all().size(), 1u);
  EXPECT_STREQ(parsed.diags.all()[0].def->code, "L009");
}

}  // namespace
}  // namespace tilec::language
