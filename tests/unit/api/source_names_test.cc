// Two checkouts make the same bytes: what a kernel is compiled to, and the key it is cached under,
// follow from the texts and how they import each other, not from where the files lie.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/api/loaded.h"
#include "tests/unit/temp_folder.h"

namespace tilec {
namespace {

constexpr const char* kMain = R"(import "../lib/twice"
import "std/prelude"
kernel scale(X: f32[N], Y: out f32[N]) {
  parallel n in tiles(N, 128) {
    Y[n] = twice(relu_row(X[n]))
  }
}
)";
constexpr const char* kLibrary = "fn twice(x: f32[N]) -> f32[N] {\n  return x + x\n}\n";

struct Made {
  std::string ptx, key;
  std::map<int32_t, std::string> names;
  std::vector<std::string> paths;  // of the places, as people see them
};

void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

Made MadeIn(const std::string& root) {
  Write(root + "/kernels/scale.tile", kMain);
  Write(root + "/lib/twice.tile", kLibrary);
  Made made;
  DiagSink diags;
  api::Loaded loaded;
  auto program =
      api::LoadProgram(loaded.sources, root + "/kernels/scale.tile", api::StandardLibrary(), diags);
  EXPECT_TRUE(program.ok()) << RenderAll(diags, loaded.sources);
  if (!program.ok()) return made;
  loaded.program.emplace(std::move(*program));
  made.names = loaded.program->FileNames();
  api::Call call;
  for (const char* name : {"X", "Y"})
    call.facts[name] = {.base_align_bytes = 256, .last_contiguous = true};
  made.key = api::ImageKey(loaded, "scale", call, {});
  auto image = api::CompileCall(loaded, "scale", call, {}, {}, diags);
  EXPECT_TRUE(image.ok()) << RenderAll(diags, loaded.sources);
  if (!image.ok()) return made;
  made.ptx = image->ptx;
  api::ShowPaths(loaded, &*image);
  for (const backend::SourceLine& line : image->lines) made.paths.push_back(line.file);
  return made;
}

TEST(SourceNames, DoNotTellWhereFilesLie) {
  const TempFolder folder;
  const Made a = MadeIn(folder.path() + "a"), b = MadeIn(folder.path() + "b/elsewhere");
  EXPECT_EQ(a.ptx, b.ptx);
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.ptx.find(folder.path()), std::string::npos);
  EXPECT_NE(a.ptx.find("\"scale.tile\""), std::string::npos) << a.ptx.substr(0, 400);
  std::vector<std::string> names;
  for (const auto& [file, name] : a.names) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"scale.tile", "../lib/twice.tile", "std/prelude.tile"}));
}

TEST(SourceNames, ArePathsForPeople) {
  const TempFolder folder;
  const Made made = MadeIn(folder.path() + "a");
  const std::string path = folder.path() + "a/kernels/scale.tile";
  EXPECT_NE(std::find(made.paths.begin(), made.paths.end(), path), made.paths.end());
}

}  // namespace
}  // namespace tilec
