// CompileCall: all stages behind the cache.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/diagnostics.h"
#include "api/divided.h"
#include "api/pipeline.h"
#include "api/solution_cache.h"
#include "api/stage.h"

namespace tilec::api {

Result<backend::KernelImage> CompileCall(const Loaded& loaded, const std::string& kernel,
                                         const Call& call, const PipelineOptions& options,
                                         const CompileWith& with, DiagSink& diags) {
  Observation* const look = with.look;
  const runtime::KernelCache* const cache = look && look->looks() ? nullptr : with.cache;
  if (with.cached) *with.cached = false;
  std::string key;
  if (cache) {
    Stage stage(look, "cache");
    key = ImageKey(loaded, kernel, call, options);
    if (const auto payload = cache->Get(key, diags)) {
      backend::KernelImage image;
      std::string why;
      if (backend::FromJson(*payload, &image, &why)) {
        if (with.cached) *with.cached = true;
        return image;
      }
      diags.Report(kImageDamaged, Span{}, kernel, why);
    }
  }
  TRY(ir::Function fn, MakeTileIr(loaded, kernel, call, look, diags));
  PipelineOptions lowering = options.For(call);
  SolutionCache solutions(cache, diags);
  if (!lowering.solutions) lowering.solutions = &solutions;
  const auto keep = [&](const backend::KernelImage& image) {
    if (!cache) return;
    Stage stage(look, "cache");
    cache->Put(key, fmt::format("{} {}", kernel, image.target), backend::ToJson(image), diags);
  };
  if (MayBeSeveral(fn, lowering) && options.stamps == 0) {
    TRY(std::optional<backend::KernelImage> divided,
        DividedImage(loaded, fn, lowering, look, diags));
    if (look && look->stopped) return diags.Report(kStopped, Span{}, kernel, look->stop_after);
    if (divided) {
      keep(*divided);
      return *std::move(divided);
    }
  }
  TRY(fn, LowerToWarps(loaded, std::move(fn), lowering, look, diags));
  if (look && look->stopped) return diags.Report(kStopped, Span{}, kernel, look->stop_after);
  TRY(backend::KernelImage image, MakeImage(loaded, fn, options, look, diags));
  keep(image);
  return image;
}

}  // namespace tilec::api
