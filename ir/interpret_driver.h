// One run of a tile function on the interpreter: its arguments, what must hold of them, and the
// instances of its grids.
// Included by the files that define it: interpret.cc, interpret_arguments.cc, interpret_grid.cc.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/interpret.h"
#include "ir/interpret_run.h"

namespace tilec::ir::interpret_internal {

class Driver {
 public:
  Driver(const Function& fn, InterpretInputs& inputs, const InterpretOptions& options,
         uint64_t perturb, DiagSink& diags);
  // Where atomics met in an earlier run (by tensor), and where they did in this one.
  void Know(const std::map<int32_t, Meetings>* met) { known_ = met; }
  std::map<int32_t, Meetings> Met();
  Result<InterpretReport> Run();

 private:
  Result<> BindDims();
  Result<> BindTensors();
  Result<> BindScalars(Worker& top);
  Result<> CheckFacts();
  Result<> CheckSizes();
  void MarkUses();
  struct Grid;
  Result<Grid> GridOf(const Op& parallel, Worker& top);
  Result<> RunGrid(const Op& parallel, Worker& top);
  Result<> ReportConflicts(const std::vector<const Conflicts*>& found);

  Kernel kernel_;
  const Function& fn_;
  InterpretInputs& inputs_;
  DiagSink& diags_;
  Bindings names_;
  InterpretReport report_;
  const std::map<int32_t, Meetings>* known_ = nullptr;
  bool one_thread_ = false;
  bool may_sample_ = true;
  bool sampled_ = false;
};

// "[3, 4]".
std::string ShapeText(const std::vector<int64_t>& dims);

}  // namespace tilec::ir::interpret_internal
