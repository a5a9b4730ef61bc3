// ptxas in the loop: what the machine model could not know of a schedule, its assembler says. Where
// it spills, the solver gets fewer registers; where it serializes the products, that answer is
// passed over; then the loops are solved again. The answer is a .sched file, which pins the build:
// --schedule=FILE gives the same PTX, with or without ptxas at hand.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/pipeline.h"
#include "backend/kernel_image.h"
#include "backend/ptxas.h"

namespace tilec::api {

struct Refined {
  backend::KernelImage image;
  backend::PtxasReport report;               // of the image
  std::vector<backend::PtxasReport> before;  // of what is launched before it: image.before
  std::string schedule;             // text of the .sched file; "": the image obeys no schedule
  std::vector<std::string> rounds;  // what each gave, for people
};

// A round that is about to begin, told once a second has passed: each solves and assembles, and may
// take long.
using RefineProgress = std::function<void(size_t round, const std::string& what, double seconds)>;

// Compiles as `options` say, whose schedule is the solver's, until ptxas has nothing to say or
// there is nothing left to try; then the best is kept and a warning says so. Leaves the schedule of
// the last round in `loaded`.
struct RefineBy {
  std::string ptxas;  // where it lies
  RefineProgress progress = nullptr;
};
Result<Refined> Refine(Loaded& loaded, const std::string& kernel, const Call& call,
                       const PipelineOptions& options, const RefineBy& by, DiagSink& diags);

}  // namespace tilec::api
