// What a launch of a kernel is tuned to: the choice made for its sizes or their class before, or
// made now, by the model, by a clock or by a file; and what is measured behind launches and put in
// its place (api/improve.h). Which program that gives is found in kernel_programs.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "api/kernel_programs.h"
#include "api/state.h"

namespace tilec {

// Facts about the call's tensors and values that are compiled in: what a choice and a program are
// of, beside sizes.
std::string FactsText(const api::Call& call);

// What is chosen for a launch holds for all of its sizes, or of their class, and alignments. A
// class is found by rounding; its representative is asked for only where it is new, or where not
// all dims can be rounded. What is measured holds for one device. Gives whether all launches of the
// class have this choice.
Result<bool> Tune(KernelState& k, const Where& where, api::Call* call, DiagSink& diags);

}  // namespace tilec
