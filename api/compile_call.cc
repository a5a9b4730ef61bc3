// SPDX-License-Identifier: Apache-2.0
#include "api/diagnostics.h"
#include "api/environment.h"
#include "api/pipeline.h"
#include "api/stage.h"
#include "backend/backend.h"

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
  key.Add("target", options.target);
  if (loaded.schedule_file >= 0)
    key.Add("schedule file", loaded.sources.text(loaded.schedule_file));
  else
    key.Add("schedule", options.schedule);
  if (loaded.plan_file >= 0) key.Add("plan", loaded.sources.text(loaded.plan_file));
  if (options.stamps > 0) key.Add("stamps", fmt::format("{}", options.stamps));
  for (int32_t file : loaded.program->files())
    key.Add("path", loaded.sources.path(file)).Add("text", loaded.sources.text(file));
  key.Add("kernel", kernel);
  if (call.rows_cut_sectors) key.Add("rows", "cut sectors");
  if (call.split > 1) key.Add("split", fmt::format("{}", call.split));
  AddValues(key, "static", call.statics);
  for (const auto& [name, f] : call.facts)
    key.Add("facts " + name, fmt::format("{} {} {} {}", f.base_align_bytes, f.stride_align_bytes,
                                         f.last_contiguous, f.last_dim_align));
  return key.Hex();
}

Result<backend::KernelImage> CompileCall(const Loaded& loaded, const std::string& kernel,
                                         const Call& call, const PipelineOptions& options,
                                         const runtime::KernelCache* cache, Observation* look,
                                         bool* cached, DiagSink& diags) {
  if (cached) *cached = false;
  if (look && look->looks()) cache = nullptr;
  std::string key;
  if (cache) {
    Stage stage(look, "cache");
    key = ImageKey(loaded, kernel, call, options);
    if (const auto payload = cache->Get(key, diags)) {
      backend::KernelImage image;
      std::string why;
      if (backend::FromJson(*payload, &image, &why)) {
        if (cached) *cached = true;
        return image;
      }
      diags.Report(kImageDamaged, Span{}, kernel, why);
    }
  }
  TRY(ir::Function fn, MakeTileIr(loaded, kernel, call, look, diags));
  PipelineOptions with = options.For(call);
  with.solutions = cache;
  TRY(fn, LowerToWarps(loaded, std::move(fn), with, look, diags));
  if (look && look->stopped) return diags.Report(kStopped, Span{}, kernel, look->stop_after);
  TRY(backend::KernelImage image, MakeImage(loaded, fn, options, look, diags));
  if (cache) {
    Stage stage(look, "cache");
    cache->Put(key, fmt::format("{} {}", kernel, image.target), backend::ToJson(image), diags);
  }
  return image;
}

}  // namespace tilec::api
