// What ptxas spilled, or no longer has beside each other, is said by whoever assembles: bytes, the
// role that is fullest, what to change. A build never spills or serializes in silence: `tilec
// build`, `tilec bundle` and the choice of tunes ask here.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "api/pipeline.h"
#include "backend/ptxas.h"
#include "ir/lower/pressure.h"

namespace tilec::api {

// C734, where the report has spills; C739, where it has products that are awaited one by one.
// `launch`: of several launches the title of the one that was assembled, which is said beside it.
void SaySpills(const Loaded& loaded, const std::string& kernel, const ir::RolePressure& fullest,
               const backend::PtxasReport& report, DiagSink& diags, const std::string& launch = "");

// The same for who has an image alone (it may come from a cache): the program of that launch is
// made again, and only where something was spilled.
struct AssembledLaunch {
  const backend::PtxasReport& report;
  size_t number = 0;  // of the call's launches, in their order
};
void SaySpillsOfCall(const Loaded& loaded, const std::string& kernel, const Call& call,
                     const PipelineOptions& options, const AssembledLaunch& assembled,
                     DiagSink& diags);

}  // namespace tilec::api
