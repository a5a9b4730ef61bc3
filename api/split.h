// How the CTAs of a launch go about their tiles, by the machine model and for the sizes of a call:
// how many share the iterations of a tile's loop, and whether neighbours copy for each other.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "api/pipeline.h"
#include "scheduler/split_choice.h"

namespace tilec::api {

// Cleaned up, and what it was before its rows were unrolled (ir/clean_up.h).
struct Cleaned {
  ir::Function fn;
  std::optional<ir::Function> loops;
};
// For ratings: verified before and when all is done, and not after each pass.
Result<Cleaned> Clean(ir::Function fn, const PipelineOptions& options, DiagSink& diags);

// Before it is lowered: without products, as many CTAs side by side as what it keeps in shared
// memory leaves room for.
scheduler::LaunchShape LikelyShape(const ir::Function& fn, const ir::WorkCount& work,
                                   const ir::Target& target);

struct TuneMemory;

// For the tunes that the call has by now. One CTA that copies for itself where the options ask for
// something else than the solver's own choice, or the model cannot tell. `memory` (may be null)
// makes it faster, if it is of the same facts and given statics.
scheduler::SplitChoice SplitFor(const Loaded& loaded, const frontend::Signature& signature,
                                const PipelineOptions& options, const Call& call,
                                TuneMemory* memory = nullptr);

// The schedule of a call that goes about its tiles so, where `schedule` was asked for. A program
// whose tunes are not chosen by sizes serves all of them, and walks over tiles.
std::string ScheduleOf(const scheduler::SplitChoice& choice, const std::string& schedule);

// The same, and the call has it.
scheduler::SplitChoice ChooseForm(const Loaded& loaded, const frontend::Signature& signature,
                                  const PipelineOptions& options, Call* call);

// Integers among the call's dims and scalars, by name.
Bindings NamesOf(const Call& call);

}  // namespace tilec::api
