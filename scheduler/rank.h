// Which tile sizes and row slicings are worth having: candidates are rated by cycles per unit of
// work, those whose lower bound cannot reach the best few are never solved.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "scheduler/scheduler.h"
#include "scheduler/solution_store.h"

namespace tilec::scheduler {

struct RankCandidate {
  std::string name;  // "BM=128 BN=256, 2 slices"
  Graph graph;
  double work = 1;  // what an iteration gets done, comparable between candidates
};

struct Ranked {
  enum class Kind { kSolved, kPruned, kRefuted, kOpen };
  Kind kind = Kind::kOpen;
  size_t candidate = 0;
  int64_t bound = 0;        // elementary, always there
  int64_t ii = 0;           // kSolved
  int64_t lower_bound = 0;  // kSolved: proved
  double cost = 0;          // cycles per work: of II where solved, of the bound where not
  std::string why;          // kRefuted, kOpen: the diagnostic
};

// The best `keep` by cost first, then what was solved besides, pruned and refuted; order of
// candidates decides between equals. `store` may be null.
std::vector<Ranked> RankByModel(const std::vector<RankCandidate>& candidates, size_t keep,
                                const SolveOptions& options, SolutionStore* store);

}  // namespace tilec::scheduler
