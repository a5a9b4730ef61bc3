// Runs one kernel once with tensors of the host, on a device or in the interpreter, and compares.
// `tilec run` and `tilec test` are this with different questions around it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/kernel_image.h"
#include "ir/interpret.h"
#include "runtime/device.h"
#include "tools/session.h"
#include "tools/timeline.h"

namespace tilec::tools {

// Images that were compiled in this process, by everything they depend on. Whoever runs a kernel
// again and again keeps one, so that it is compiled once; diagnostics of compiling come once, too.
using Images = std::map<std::string, backend::KernelImage>;

struct RunRequest {
  std::string kernel;
  api::Given values;                                  // dims, scalars, consts, tunes
  std::map<std::string, std::string> files;           // tensor → .npy
  std::map<std::string, ir::TensorValue> tensors;     // tensors that are there already
  std::map<std::string, frontend::TestInput> inputs;  // what tensors hold that are made here
  uint64_t seed = 0;
  // What the PTX is replaced by before it is loaded; for tests of the checks.
  std::function<std::string(const std::string&)> rewrite;
  runtime::Device* device = nullptr;  // null: the interpreter alone
  bool check = false;                 // compare with the interpreter
  double tolerance = -1;              // of the check; negative: the bound alone
  // A kernel that is interpreted on the same tensors; what both write must agree: within the sum of
  // both bounds, or within tolerance · (|v| + rms v) if there is one.
  std::string expect;
  int repeat = 1;  // launches; the fastest is reported
  Images* images = nullptr;
  bool keep_reference = false;  // RunResult::reference
};

struct TensorRun {
  std::string name;
  std::string type;    // "bf16[512, 512]"
  std::string source;  // "random", "A.npy"
  bool written = false;
  bool compared = false;
  ir::CompareResult result;
  std::optional<ir::CompareResult> expected;  // against the kernel that was named
  double passes_within = 0;  // `~ t` that `expected` would pass with; 0: none small enough
  std::vector<int64_t> dims;
  bool ok() const { return (!compared || result.ok()) && (!expected || expected->ok()); }
};

// How much of what was written could be judged.
struct Decided {
  int64_t decided = 0, sampled = 0, undecided = 0;  // elements; `sampled` of the decided ones
  bool enough = true;                               // of every tensor at least half
  void Add(int64_t decided_ones, int64_t sampled_ones, int64_t undecided_ones);
  void Add(const Decided& other);
  std::string Text() const;  // "12 elements decided (4 by sampling), 3 undecided"
};

struct RunResult {
  std::vector<TensorRun> tensors;
  frontend::Values values;  // all that was bound, for showing
  std::map<std::string, ir::TensorValue> outputs;
  std::map<std::string, ir::TensorValue> reference;  // the interpreter's, where both ran
  bool compiled = false, cached = false;
  double compile_ms = 0, check_ms = 0;
  runtime::LaunchStats stats;
  std::optional<Timeline> timeline;
  bool stopped = false;  // --stop-after came first
  // Against the interpreter, or of the interpreter's own results where nothing else ran.
  Decided decided() const;
  bool ok() const {
    for (const TensorRun& t : tensors)
      if (!t.ok()) return false;
    return true;
  }
};

// The session has loaded the program.
Result<RunResult> RunKernel(Session& session, const RunRequest& request);

// "max error 1.2e-3, 0.31 of the bound, 262144 elements" or where it first failed; how many of
// them were judged by sampling (ir/interpret.h), how many could not be judged.
std::string DescribeCheck(const TensorRun& tensor);
std::string DescribeCheck(const TensorRun& tensor, const ir::CompareResult& result);

}  // namespace tilec::tools
