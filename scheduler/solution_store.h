// Solutions that are kept: the same graph, options and solver give the same answer, so it may come
// from a store. What comes out is judged again like any schedule; what does not hold is solved
// afresh.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "scheduler/scheduler.h"

namespace tilec::scheduler {

// A place to keep texts under texts. Losing them is allowed at any time.
class SolutionStore {
 public:
  virtual ~SolutionStore() = default;
  virtual std::optional<std::string> Get(const std::string& key) = 0;
  virtual void Put(const std::string& key, const std::string& label,
                   const std::string& solution) = 0;
};

// Everything that a solution depends on.
std::string SolutionKey(const Graph& graph, const SolveOptions& options);

std::string ToText(const Solution& solution);
// Nothing if the text is damaged, is for another graph, or holds an unlawful schedule.
std::optional<Solution> SolutionFromText(const Graph& graph, const SolveOptions& options,
                                         std::string_view text);

// Solve, through the store; without one (null) the same as Solve.
Result<Solution> SolveStored(const Graph& graph, const SolveOptions& options, SolutionStore* store,
                             DiagSink& diags);

}  // namespace tilec::scheduler
