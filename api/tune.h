// --tune=model: values for the tunes that a call leaves open, by the machine model, for the sizes
// of the call. First all that can be rated from bounds is (scheduler/kernel_time.h), along the axes
// of the space from several starts; the few best are lowered, and what their programs' loops take
// decides. The defaults stand unless another point is better by a margin, and of what ptxas spills,
// where there is one to ask (PipelineOptions::ptxas), nothing is chosen. Where products are
// complete at once the defaults, too, must fit; where nothing does, what lacks fewest registers is
// chosen.
//
// Deterministic and bounded: counts of points, no clocks, and the scheduler's first answers.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "api/pipeline.h"
#include "scheduler/kernel_time.h"
#include "scheduler/solution_store.h"

namespace tilec::api {

struct TunePoint {
  frontend::Values values;     // of the open tunes
  scheduler::KernelTime time;  // of the lowered program where `lowered`, else from bounds
  int64_t split = 1;           // CTAs for each tile (api/split.h)
  int64_t pack = 1;            // instances whose rows are one tile
  bool lowered = false;
  bool by_schedule = false;  // the lowered program has the order of the first schedule found
  bool is_default = false;
  bool awaits = false;  // turns wait for their own copies
  int64_t lacks = 0;    // registers of a thread; more than 0: ptxas is taken to spill
};

constexpr size_t kRest = 16;

struct TuneChoice {
  frontend::Values values;         // what to use; empty: the defaults
  std::vector<TunePoint> lowered;  // best first; empty where the choice was remembered
  std::vector<TunePoint> rest;     // the next best by bounds, up to kRest
  size_t rated = 0;                // points that were rated by bounds
  std::string why_not;             // no choice could be made: why
  bool fails = false;              // because the kernel does not compile
};

struct TuneMemory;

// What a choice may take from earlier ones.
struct Remembered {
  Remembered(scheduler::SolutionStore* store = nullptr, TuneMemory* memory = nullptr)
      : store(store), memory(memory) {}
  scheduler::SolutionStore* store;  // null: choices are not kept
  TuneMemory* memory;  // may be null; makes it faster, if it is of the same facts and statics
};

TuneChoice ChooseTunes(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                       const PipelineOptions& options, const Remembered& from);

// What the options ask the open tunes of the call to be; empty: their defaults.
frontend::Values TunesFor(const Loaded& loaded, const frontend::Signature& signature,
                          const Call& call, const PipelineOptions& options, const Remembered& from,
                          DiagSink& diags);

}  // namespace tilec::api
