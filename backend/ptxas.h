// ptxas, where there is one: assembles PTX and reports what became of registers, shared memory and
// the tensor-core pipeline. Optional: without it the driver assembles at load time.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "support/diag.h"
#include "support/result.h"

namespace tilec::backend {

// Where to look, in this order. Nothing here reads the environment; the caller passes what it wants
// searched.
struct PtxasSearch {
  std::string path;       // an explicit file; if set, nothing else is tried
  std::string cuda_home;  // $CUDA_HOME: <cuda_home>/bin/ptxas
  std::string path_list;  // $PATH
};
// The file, or "" if there is none.
std::string FindPtxas(const PtxasSearch& search);
// "13.0.88", as `ptxas --version` says; "" if it does not.
std::string PtxasVersion(const std::string& ptxas);

struct PtxasReport {
  std::string cubin;
  int registers = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;
  int barriers = 0;
  int64_t smem_bytes = 0;  // static
  // Lines with a code C75xx: wgmma or setmaxnreg did not get the code that was asked for (exit
  // status is 0 all the same). C7519, an extra fence, costs nothing and is listed too.
  std::vector<std::string> pipeline;
  std::string log;  // everything ptxas said
  // Those of them that await products one by one: what a plan has beside products no longer is.
  std::vector<std::string> Serialized() const;
  bool clean() const {
    return pipeline.empty() && !spill_store_bytes && !spill_load_bytes && !stack_bytes;
  }
};

// `ptxas` as FindPtxas gave it; "" is reported as missing.
Result<PtxasReport> Assemble(const std::string& ptx, const std::string& target,
                             const std::string& ptxas, DiagSink& diags);

// The numbers in a log, for tests and for the driver's JIT, which writes the same text.
void ParsePtxasLog(const std::string& log, PtxasReport* report);

}  // namespace tilec::backend
