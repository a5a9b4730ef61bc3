// Schedules kept on disk save time and change nothing: a kernel lowered without a cache, with an
// empty one and with a full one is the same text.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/solution_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "api/call.h"
#include "api/pipeline.h"
#include "api/stdlib.h"
#include "ir/text.h"
#include "tests/unit/temp_folder.h"

namespace tilec::api {
namespace {

constexpr const char* kChain = R"(
kernel chain(A: bf16[M, 64], B: bf16[K, 64], C: out f32[M, 64]) {
  parallel m in tiles(M, 128) {
    let a = A[m, :]
    var acc: f32[128, 64] = 0
    for k in tiles(K, 64) {
      acc += (exp2(a @ B[k, :].T) as bf16) @ B[k, :]
    }
    C[m, :] = acc
  }
}
)";

std::string Lowered(const runtime::KernelCache* cache, DiagSink& diags) {
  Loaded loaded;
  auto program = frontend::Program::LoadText(loaded.sources, "chain.tile", kChain,
                                             StandardLibrary().Resolver(), diags);
  if (!program.ok()) return RenderAll(diags, loaded.sources);
  loaded.program.emplace(std::move(*program));
  auto signature = frontend::SignatureOf(*loaded.program, "chain", diags);
  const auto bind = [&]() -> Result<std::string> {
    const Tensors tensors = {{"A", {"bf16", 0x1000, {256, 64}, {}}},
                             {"B", {"bf16", 0x100000, {512, 64}, {}}},
                             {"C", {"f32", 0x200000, {256, 64}, {}}}};
    TRY(const frontend::Values values, CheckValues(*signature, {}, diags));
    TRY(const Call call,
        BindCall(*loaded.program, *signature, ForRuntime(*signature), values, tensors, diags));
    TRY(ir::Function fn, MakeTileIr(loaded, "chain", call, nullptr, diags));
    PipelineOptions options;
    SolutionCache solutions(cache, diags);
    options.solutions = &solutions;
    TRY(fn, LowerToWarps(loaded, std::move(fn), options, nullptr, diags));
    return ir::Print(fn);
  };
  const Result<std::string> text = bind();
  return text.ok() ? *text : RenderAll(diags, loaded.sources);
}

TEST(SolutionCache, ChangesNothingButTime) {
  const TempFolder folder;
  const std::string dir = folder.path() + "cache";
  const runtime::KernelCache cache(dir);
  DiagSink diags;
  const std::string without = Lowered(nullptr, diags);
  EXPECT_NE(without.find("tma_store"), std::string::npos) << without;
  EXPECT_EQ(Lowered(&cache, diags), without);
  const auto stored = cache.Stat(diags);
  ASSERT_TRUE(stored.ok());
  EXPECT_GE(stored->entries, 1u);  // of the ways to cut the rows
  EXPECT_EQ(Lowered(&cache, diags), without);
  const auto again = cache.Stat(diags);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->entries, stored->entries);  // nothing was solved that was there
  EXPECT_EQ(diags.all().size(), 0u);

  // An entry that is damaged is a warning and solved again.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir))
    if (entry.is_regular_file()) {
      std::fstream file(entry.path(), std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
      file << "#####";
    }
  EXPECT_EQ(Lowered(&cache, diags), without);
  EXPECT_FALSE(diags.has_errors());
  EXPECT_GE(diags.all().size(), 1u);
}

// The hits that the store of a run gives need no directory.
TEST(SolutionCache, RemembersWithoutADirectory) {
  DiagSink diags;
  SolutionCache store(nullptr, diags);
  EXPECT_FALSE(store.Get("key").has_value());
  store.Put("key", "label", "text");
  EXPECT_EQ(store.Get("key"), "text");
}

}  // namespace
}  // namespace tilec::api
