// What an image is called in a cache, and what it calls its sources.
//
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "api/environment.h"
#include "api/pipeline.h"

namespace tilec::api {

namespace {

void AddValues(runtime::CacheKey& key, const char* what, const frontend::Values& values) {
  for (const auto& [name, value] : values)
    key.Add(fmt::format("{} {}", what, name),
            fmt::format("{} {}", value.index(), frontend::ToText(value)));
}

}  // namespace

std::string ImageKey(const Loaded& loaded, const std::string& kernel, const Call& call,
                     const PipelineOptions& options) {
  runtime::CacheKey key;
  key.Add("compiler", CompilerVersion()).Add("build", BuildStamp());
  // A machine of the user's is what its file says, wherever that lies.
  if (options.machine != nullptr && ir::NamesMachineFile(options.target))
    key.Add("machine", ir::ToToml(*options.machine));
  else
    key.Add("target", options.target);
  if (loaded.schedule_file >= 0)
    key.Add("schedule file", loaded.sources.text(loaded.schedule_file));
  else
    key.Add("schedule", call.schedule.empty() ? options.schedule : call.schedule);
  if (loaded.plan_file >= 0) key.Add("plan", loaded.sources.text(loaded.plan_file));
  if (options.stamps > 0) key.Add("stamps", fmt::format("{}", options.stamps));
  const std::map<int32_t, std::string> names = loaded.program->FileNames();
  for (int32_t file : loaded.program->files())
    key.Add("file", names.at(file)).Add("text", loaded.sources.text(file));
  key.Add("kernel", kernel);
  if (call.share_copies) key.Add("copies", "shared");
  if (call.split > 1) key.Add("split", fmt::format("{}", call.split));
  if (call.pack > 1) key.Add("pack", fmt::format("{}", call.pack));
  AddValues(key, "static", call.statics);
  for (const auto& [name, f] : call.facts)
    key.Add("facts " + name, fmt::format("{} {} {} {}", f.base_align_bytes, f.stride_align_bytes,
                                         f.last_contiguous, f.last_dim_align));
  return key.Hex();
}

void ShowPaths(const Loaded& loaded, backend::KernelImage* image) {
  std::map<std::string, std::string> paths;  // of files that share a name, the one loaded first
  for (const auto& [file, name] : loaded.program->FileNames())
    paths.emplace(name, loaded.sources.path(file));
  for (backend::SourceLine& line : image->lines)
    if (const auto at = paths.find(line.file); at != paths.end()) line.file = at->second;
}

}  // namespace tilec::api
