// What a search for tunes finds out that holds for all sizes: the kernel at each point, the forms
// it can take, and the programs that points became. The search for the next class of sizes begins
// with it. It is of one kernel, one set of facts about its tensors and one set of given statics.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/pipeline.h"
#include "ir/lower/filled.h"
#include "scheduler/split_choice.h"

namespace tilec::api {

// Not thread-safe. Must not outlive the machine it was filled with.
struct TuneMemory {
  // The kernel at a point.
  struct Known {
    std::unique_ptr<scheduler::Forms> forms;  // null: it does not compile
    bool too_wide = false;                    // for the machine's instructions
    double longer = 1;                        // than its bounds say, by what they do not count
  };
  std::map<std::string, Known> points;  // by statics
  // What a point became in one form.
  struct Program {
    ir::Function clean, warps;
    Lowered how;
    ir::Filling filling;
  };
  std::map<std::string, std::unique_ptr<Program>> programs;  // null: it was refused
};

// Choices in a store, by all that they depend on.
std::string TuneKey(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                    const PipelineOptions& options);
std::optional<frontend::Values> KeptTunes(scheduler::SolutionStore& store, const std::string& key);
void KeepTunes(scheduler::SolutionStore& store, const std::string& key, const std::string& kernel,
               const frontend::Values& values);

}  // namespace tilec::api
