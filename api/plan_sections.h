// A plan file is of what a call launches: a kernel of two launches has two plans, one behind the
// other, each from its record `plan` on, in the order in which they are launched. Each launch is
// compiled by its own section; the places of its diagnostics are those of the file.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "api/pipeline.h"

namespace tilec::api {

// How many launches the plan that was given is of; 0: none was given.
size_t PlannedLaunches(const Loaded& loaded);

// The file's text with everything but this launch's section blanked out. Fails with I273 unless
// there are as many sections as launches.
Result<std::string> PlanSection(const Loaded& loaded, const std::string& kernel,
                                const LaunchNumber& launch, DiagSink& diags);

}  // namespace tilec::api
