// From a kernel's tile IR to scheduling problems and their solutions: the only file here that knows
// how loops become graphs and how row slices are chosen.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "explain/explain.h"
#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/extract.h"
#include "scheduler/scheduler.h"
#include "scheduler/solution_store.h"

namespace tilec::explain {

// One loop, with its rows cut into `slices`.
struct Candidate {
  int slices = 1;
  scheduler::Graph graph;
  std::vector<std::vector<Span>> members;  // by op: places of all ops of the body it stands for
};

struct LoopProblem {
  Span at;
  // What an iteration gets done, for comparing tile sizes: multiply-adds of its products, else
  // elements loaded.
  double work = 0;
  std::string work_name;
  std::vector<Candidate> candidates;  // smallest bound first
};

// Loops that have no loop inside and that the scheduler takes, in program order; never empty.
// Loops that it does not take come as notes. `options`: but the number of slices.
Result<std::vector<LoopProblem>> ProblemsOf(const ir::Function& fn, const ir::Target& target,
                                            std::vector<Reason>* notes, DiagSink& diags,
                                            scheduler::ExtractOptions options = {});

struct Solved {
  const Candidate* candidate = nullptr;
  scheduler::Solution solution;
};

// The candidate with the smallest II; those whose bound cannot beat the best so far are not asked.
// What was tried is added to `notes`. `store` may be null.
Result<Solved> SolveBest(const LoopProblem& problem, const scheduler::SolveOptions& options,
                         scheduler::SolutionStore* store, std::vector<Reason>* notes,
                         DiagSink& diags);

}  // namespace tilec::explain
