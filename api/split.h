// How many CTAs share the turns of a tile's loop, by the machine model and for the sizes of a call.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/pipeline.h"
#include "scheduler/split_choice.h"

namespace tilec::api {

// For the tunes that the call has by now. One CTA where the options ask for something else than the
// solver's own choice, or the model cannot tell.
scheduler::SplitChoice SplitFor(const Loaded& loaded, const frontend::Signature& signature,
                                const PipelineOptions& options, const Call& call);

// Integers among the call's dims and scalars, by name.
Bindings NamesOf(const Call& call);

}  // namespace tilec::api
