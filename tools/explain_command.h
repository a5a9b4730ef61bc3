// `tilec explain`: what a schedule does and why it cannot be faster, of a kernel's loops, of a
// nest, of a graph, or of the program that the compiler made of a kernel.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/divided.h"
#include "api/schedule_names.h"
#include "api/solution_cache.h"
#include "compile/search.h"
#include "explain/explain.h"
#include "explain/problem.h"
#include "explain/whynot.h"
#include "ir/target.h"
#include "sass/diagnostics.h"
#include "scheduler/program.h"
#include "tools/diagnostics.h"
#include "tools/prepare.h"
#include "tools/session.h"

namespace tilec::tools {

using explain::Explanation;
using explain::LoopProblem;
using explain::Question;
using explain::Reason;

class ExplainCommand {
 public:
  explicit ExplainCommand(Session& session);
  Result<> Run();

 private:
  Result<> CheckWords();
  Result<> Settle();

  // A schedule from a file, or the solver's.
  bool FromFile() const { return !api::SlicesOf(o_.schedule); }
  Result<Explanation> OfGraph();
  Result<Explanation> ReadFor(const std::vector<std::string>& words);
  Result<Explanation> Solve(const scheduler::Graph& graph);
  Result<> CheckLoop(size_t loops);
  Result<std::vector<LoopProblem>> Loops(const std::vector<std::string>& words,
                                         std::vector<Reason>* notes);
  size_t Chosen(const std::vector<LoopProblem>& loops) const;
  Result<Explanation> OfNest();
  Result<> Compile();
  Result<api::Launches> LaunchesOf(const Prepared& prepared, ir::Function fn);

  // The loops of the compiled programs that obey a schedule.
  struct ObeyedLoop {
    const scheduler::LoopReport* report;
    size_t launch;
  };
  std::vector<ObeyedLoop> Obeyed() const;
  Result<Explanation> OfCompiled(const std::vector<ObeyedLoop>& loops);
  Result<Explanation> OfKernel();
  void AddAnswers(const scheduler::Graph& graph, const scheduler::Solution& solution,
                  Explanation* e) const;
  std::vector<std::string> With(const Question& question) const;
  Result<explain::Answer> Ask(const Explanation& e, const Question& question);
  Result<> Decide();
  Result<> ReadMachineCode();
  Result<> Lower(Explanation* e);
  Result<> Finish(Explanation e);

 public:
  bool broken() const { return broken_; }

 private:
  Session& session_;
  const Options& o_;
  api::SolutionCache store_;
  scheduler::SolveOptions options_;
  std::optional<explain::Measured> measured_;
  std::vector<Question> questions_;
  std::vector<LoopProblem> loops_;
  size_t loop_ = 0;
  struct Compiled {
    ir::Function fn;
    api::Lowered lowered;
    std::string title;
  };
  std::vector<Compiled> compiled_;  // what the call launches
  size_t launch_ = 0;               // whose loop is explained
  std::string plan_;                // of the compiled programs
  std::string settled_;             // what --tune chose, as a sentence
  bool broken_ = false;
};

}  // namespace tilec::tools
