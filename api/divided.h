// Kernels as two launches. Of few tiles and long loops: groups of CTAs share a tile's iterations,
// and what they have is put together behind them (ir/passes/divide_reductions.h). With a branch
// that hardly ever runs: it is made behind all tiles (ir/passes/defer_unlikely.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/pipeline.h"

namespace tilec::api {

// Groups of CTAs for each tile, each group a cluster, or one CTA where its CTAs are apart; 1: a
// cluster suffices.
int64_t GroupsOf(const PipelineOptions& options);

// May a call be several launches?
bool MayBeSeveral(const ir::Function& fn, const PipelineOptions& options);

// One program that a call launches, and how it is lowered.
struct LaunchProgram {
  ir::Function fn;  // tile IR
  PipelineOptions options;
  std::string title;  // "launch 1 of 2: …", for people; empty: it is the only one
};

// In the order in which they are launched: one, as `options` lower it, or the two that `fn`
// becomes.
struct Launches {
  std::vector<LaunchProgram> programs;
  size_t tensors = 0;  // the last of each: what is between them
  bool several() const { return programs.size() > 1; }
};
// A note says why what was to be two launches is not.
Result<Launches> LaunchesOf(const Loaded& loaded, ir::Function fn, const PipelineOptions& options,
                            DiagSink& diags);
// Texts of the programs, one after the other, each behind its title as a comment.
std::string BehindTitles(const Launches& launches, const std::vector<std::string>& texts,
                         const char* comment);

// The image of both launches; nothing where `fn` is one, and a note says why. `options`:
// of the call.
Result<std::optional<backend::KernelImage>> DividedImage(const Loaded& loaded,
                                                         const ir::Function& fn,
                                                         const PipelineOptions& options,
                                                         Observation* look, DiagSink& diags);

}  // namespace tilec::api
