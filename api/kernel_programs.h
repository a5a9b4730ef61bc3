// Which program a launch of a kernel runs: what was chosen for its sizes, or is chosen now,
// compiled unless somebody has, loaded once per device, and found again by what the arguments are.
// For the public Kernel (kernel.cc), which turns diagnostics into a Status.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "api/prepare_ranges.h"
#include "api/state.h"

namespace tilec {

// Where a launch will be, for what is measured. No device: it is only asked what one would run.
struct Where {
  const Device* device = nullptr;
  Stream stream = 0;
  bool real = false;     // tensors hold what they will hold
  bool launched = true;  // else it is one of many that may be
  api::Spent* spent = nullptr;
};

// The launch of such arguments, ready to go.
Result<ResolvedPtr> Resolve(KernelState& k, const Where& where, const Args& args, DiagSink& diags);
Result<> RunLaunch(KernelState& k, const Device& device, const Args& args, Stream stream,
                   runtime::LaunchStats* stats, DiagSink& diags);
// What a launch runs, chosen and not yet compiled.
Result<const Specialisation*> ProgramOf(KernelState& k, const Args& args, const Where& where,
                                        DiagSink& diags);
// What a call runs on the device of `where`: compiled and loaded, unless somebody has.
Result<runtime::LoadedKernel*> LoadedOn(KernelState& k, const Where& where, const api::Call& call,
                                        DiagSink& diags);
// One of the forms that it goes through: "tile-ir", "plan", "ptx", ….
Result<std::string> EmitText(KernelState& k, const std::string& what, const Args& args,
                             DiagSink& diags);

}  // namespace tilec
