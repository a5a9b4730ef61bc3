// Diagnostics of the front end, whole text: each tests/golden/check/*.tile holds a program and, at
// its end in lines `//| …`, what checking it says. A first line `// specialize: KERNEL NAME=VALUE…`
// specialises one kernel instead. UPDATE_GOLDEN=1 rewrites the expectations. Every F code must
// occur in some file.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "frontend/diagnostics.h"
#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

namespace fs = std::filesystem;

std::string AsComments(const std::string& text) {
  std::istringstream in(text);
  std::string line, out;
  while (std::getline(in, line)) out += line.empty() ? "//|\n" : "//| " + line + "\n";
  return out;
}

ConstValue ReadValue(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text.find_first_of(".e") != std::string::npos) return std::stod(text);
  return static_cast<int64_t>(std::stoll(text));
}

// "golden/x" is tests/golden/check/modules/x.tile.
ImportResolver Resolver() {
  FindModule find = [std_modules =
                         StdResolver()](const std::string& module) -> std::optional<ImportedText> {
    if (!module.starts_with("golden/")) return std_modules(module);
    const std::string name = module.substr(7) + ".tile";
    std::optional<std::string> text =
        ReadWhole(TILEC_SOURCE_DIR "/tests/golden/check/modules/" + name);
    if (!text) return std::nullopt;
    return ImportedText{"modules/" + name, std::move(*text)};
  };
  return {std::move(find), StdResolver().modules};
}

void CheckOrSpecialize(Loaded& loaded, const std::string& input) {
  if (!loaded.program) return;
  constexpr std::string_view kSpecialize = "// specialize: ";
  if (!input.starts_with(kSpecialize)) {
    (void)Check(*loaded.program, loaded.diags);
    return;
  }
  std::istringstream words(input.substr(kSpecialize.size(), input.find('\n') - kSpecialize.size()));
  SpecializeRequest request;
  words >> request.kernel;
  for (std::string word; words >> word;) {
    const size_t eq = word.find('=');
    request.values[word.substr(0, eq)] = ReadValue(word.substr(eq + 1));
  }
  (void)Specialize(*loaded.program, request, loaded.diags);
}

TEST(CheckGolden, Diagnostics) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(TILEC_SOURCE_DIR "/tests/golden/check"))
    if (entry.path().extension() == ".tile") files.push_back(entry.path());
  std::ranges::sort(files);
  ASSERT_GE(files.size(), 70u);
  std::set<std::string> seen;
  for (const fs::path& path : files) {
    const std::string whole = *ReadWhole(path.string());
    size_t cut = whole.find("\n//| ");
    cut = cut == std::string::npos ? whole.size() : cut + 1;
    const std::string input = whole.substr(0, cut), expected = whole.substr(cut);
    Loaded loaded(input, path.filename().string(), Resolver());
    CheckOrSpecialize(loaded, input);
    const std::string got = AsComments(loaded.errors());
    for (const Diagnostic& d : loaded.diags.all()) seen.insert(d.def->code);
    EXPECT_FALSE(loaded.diags.all().empty()) << path << " shows no diagnostic";
    if (got != expected && std::getenv("UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path, std::ios::binary) << input << got;
      continue;
    }
    EXPECT_EQ(got, expected) << path << "\nif this is intended: UPDATE_GOLDEN=1 frontend_test";
  }
  for (const DiagDef* def : kDiags)
    EXPECT_TRUE(seen.contains(def->code))
        << "no golden file shows " << def->code << " " << def->name;
}

TEST(CheckGolden, CodesAreUniqueAndAscend) {
  for (size_t i = 1; i < std::size(kDiags); ++i)
    EXPECT_LT(std::string(kDiags[i - 1]->code), std::string(kDiags[i]->code));
}

}  // namespace
}  // namespace tilec::frontend
