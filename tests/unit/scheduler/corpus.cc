// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/scheduler/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "ir/row_classes.h"
#include "tests/unit/frontend/helper.h"

namespace tilec::scheduler {

namespace {

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const char* folder : {"/stdlib", "/tests/exec"})
    for (const auto& entry :
         std::filesystem::directory_iterator(TILEC_SOURCE_DIR + std::string(folder)))
      if (entry.path().extension() == ".tile") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<CorpusLoop> Corpus(const std::vector<std::string>& machines) {
  std::vector<CorpusLoop> corpus;
  std::vector<ir::Target> targets;
  DiagSink diags;
  for (const std::string& machine : machines)
    targets.push_back(*ir::LoadBuiltinTarget(machine, diags));
  std::set<uint64_t> seen;
  for (const std::string& path : Files()) {
    frontend::Loaded loaded(*frontend::ReadWhole(path), path);
    if (!loaded.program) continue;
    for (const frontend::TestInfo& test : loaded.program->tests())
      for (const frontend::TestCallInfo& call : test.calls) {
        const std::optional<ir::Function> fn = loaded.Specialized(call.kernel, call.args);
        if (!fn) continue;
        for (ir::OpId loop : InnermostLoops(*fn))
          for (const ir::Target& target : targets)
            for (int slices : ir::RowClasses(*fn, loop).Choices()) {
              DiagSink refused;
              Result<Extraction> extraction = ExtractLoop(*fn, loop, target, slices, refused);
              if (!extraction.ok() || !seen.insert(Hash(extraction->graph)).second) continue;
              std::string name = std::filesystem::path(path).stem().string() + ":" + call.kernel;
              for (const auto& [key, value] : call.args)
                if (fn->statics.count(key) > 0) name += " " + key + "=" + frontend::ToText(value);
              corpus.push_back(
                  {fmt::format("{}, {}, {}", name, slices, target.name), *std::move(extraction)});
            }
      }
  }
  return corpus;
}

}  // namespace tilec::scheduler
