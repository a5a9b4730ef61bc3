// Passes that need a machine or the scheduler, as rows with parameters (compile/passes.def), and
// all passes by the text that names them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/strategy.h"
#include "ir/pass.h"
#include "ir/passes/persist_tiles.h"
#include "ir/target.h"
#include "scheduler/solution_store.h"
#include "support/diag.h"

namespace tilec::compile {

struct ParameterPass {
  const char* name;
  const char* summary;
  const char* parameters;  // names, with blanks between
};
std::span<const ParameterPass> ParameterPasses();
// Of both tables, in the order of their rows.
std::vector<std::string> PassNames();

// "canonicalize", "persist-tiles{ctas=132}", "schedule-loops{slices=2,withheld=16}". A pass that
// finds an obstacle leaves the function as it is and says why (R620). `target` and `store` must
// outlive the step; `store` may be null.
Result<ir::PassStep> ParsePass(const std::string& text, const ir::Target& target,
                               scheduler::SolutionStore* store, DiagSink& diags);

// The grid in another shape, or what keeps it from taking it; then nothing is changed. `ctas` 0:
// what the machine suggests.
std::optional<ir::Obstacle> Reshape(ir::Function& fn, Shape shape, int64_t ctas,
                                    const ir::Target& target);
// The row of the pass that makes a shape.
const ParameterPass& PassOf(Shape shape);
const ParameterPass& PackPass();
const ParameterPass& GridPass();
const ParameterPass& SchedulePass();

}  // namespace tilec::compile
