// Kernels of few tiles and long loops as two launches: groups of CTAs share a tile's iterations,
// and what they have is put together behind them (ir/passes/divide_reductions.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "api/pipeline.h"

namespace tilec::api {

// Groups of CTAs for each tile, each group a cluster; 1: a cluster suffices.
int64_t GroupsOf(const PipelineOptions& options);

// The image of both launches; nothing where `fn` cannot be divided, and a note says why. `options`:
// of the call.
Result<std::optional<backend::KernelImage>> DividedImage(const Loaded& loaded,
                                                         const ir::Function& fn,
                                                         const PipelineOptions& options,
                                                         Observation* look, DiagSink& diags);

// A note for those who are shown what one cluster for each tile would run: two launches do.
void SayOfLaunches(const Loaded& loaded, const ir::Function& fn, const PipelineOptions& options,
                   DiagSink& diags);

}  // namespace tilec::api
