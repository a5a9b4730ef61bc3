// A call of a kernel on one machine: compiled as written or as the machine's model chooses, run on
// the emulator held to the machine's limits, under some orders of warps and copies.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "api/machine.h"
#include "api/pipeline.h"
#include "runtime/emulator/judge/finding.h"
#include "tests/solved/folder.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec {

using runtime::Landing;
using runtime::Policy;

struct Execution {
  Policy policy;
  Landing landing;
  uint64_t seed;
};
constexpr Execution kExecutions[] = {{Policy::kRunToBlock, Landing::kEarly, 0},
                                     {Policy::kConsumerFirst, Landing::kPoison, 0},
                                     {Policy::kRandom, Landing::kLate, 1}};

inline tools::Options OptionsFor(const std::string& machine) {
  tools::Options options;
  options.target = machine;
  options.target_said = true;
  options.no_cache = true;
  options.solutions = SolvedFolder();
  return options;
}

using Outputs = std::map<std::string, ir::TensorValue>;

class OnMachine {
 public:
  OnMachine(const std::string& machine, const std::string& file);
  bool good() const { return good_; }
  const ir::Target& machine() const { return *machine_; }
  tools::Session& session() { return session_; }

  // Does the call multiply tiles, and does the machine's unit take any of the products?
  enum class Products { kNone, kByArithmetic, kOnUnit };
  Result<Products> ProductsOf(const frontend::TestCallInfo& call);
  Result<backend::KernelImage> Compile(const frontend::TestCallInfo& call, DiagSink& diags);

  // The same call with the tiles that the model takes, whatever the call says.
  Result<frontend::TestCallInfo> Chosen(frontend::TestCallInfo call, DiagSink& diags);
  bool LeavesNothingOpen(const frontend::TestCallInfo& call);
  Result<backend::KernelImage> Choose(const frontend::TestCallInfo& call, DiagSink& diags);
  api::PipelineOptions ByModel();

  // What the call gives its tensors.
  static void Take(const frontend::TestCallInfo& call, tools::RunRequest* request);
  Result<Outputs> Interpret(const frontend::TestCallInfo& call);

  // What is wrong with one execution; "": nothing.
  std::string Run(const frontend::TestCallInfo& call, const Execution& how,
                  const Outputs& expected);

 private:
  tools::Session session_;
  tools::Images images_;
  api::Machine machine_;
  bool good_ = false;
};

}  // namespace tilec
