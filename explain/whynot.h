// "Why not …?": questions about schedules that were not chosen, answered by the scheduler.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "explain/explain.h"
#include "explain/problem.h"

namespace tilec::explain {

struct Question {
  enum class Kind { kIi, kStages, kRoles, kTune };
  Kind kind = Kind::kIi;
  std::string name;  // of the tune
  int64_t value = 0;
  std::string text;  // as it was asked
};

// "II=2047", "stages=1", "roles=1", and where `tunes` may be changed "BM=64".
Result<Question> ParseQuestion(const std::string& text, bool tunes, DiagSink& diags);

// Not for kTune.
Answer AnswerQuestion(const Explanation& e, const Question& question,
                      const scheduler::SolveOptions& options);

// For kTune: the same loop compiled with another value.
Answer Compare(const Explanation& here, const LoopProblem& problem, const Question& question,
               const LoopProblem& other, const scheduler::Solution& solution);

}  // namespace tilec::explain
