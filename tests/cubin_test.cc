// Every call of the `test` blocks of .tile files, compiled to PTX and assembled by ptxas: the
// assembler is an independent judge of what the backend writes, and says what became of registers.
// Nothing may spill, and no product may be serialised.
//
//   cubin_test [--target=MACHINE] [--spill=KERNEL:BYTES,…] SCHEDULE… FILE.tile
//
// --target: another machine than the H200. --spill: kernels that are known to spill, and how much
// at most, stored or loaded.
//
// Where there is no ptxas the test says so and is skipped (exit code 77).
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "api/pipeline.h"
#include "backend/ptxas.h"
#include "support/diag.h"
#include "tests/test_calls.h"

namespace tilec {
namespace {

constexpr int kSkipped = 77;

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

class Assembler {
 public:
  Assembler(std::string ptxas, std::string target, std::map<std::string, int64_t> spills)
      : ptxas_(std::move(ptxas)), target_(std::move(target)), spills_(std::move(spills)) {}

  Result<bool> One(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                   const std::string& schedule, DiagSink& diags) {
    TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
    api::PipelineOptions options;
    options.schedule = schedule;
    options.solutions = solved_.store();
    if (!target_.empty()) options.target = target_;
    TRY(const backend::KernelImage image,
        api::CompileCall(loaded, call.kernel, bound, options, {}, diags));
    if (!seen_.insert(image.ptx).second) return true;  // the same kernel for other sizes
    TRY(const backend::PtxasReport report,
        backend::Assemble(image.ptx, image.target, ptxas_, diags));
    const auto known = spills_.find(call.kernel);
    const int64_t most = std::max(report.spill_store_bytes, report.spill_load_bytes);
    const bool good = report.clean() ||
                      (known != spills_.end() && most <= known->second && report.pipeline.empty());
    fmt::print("{}  {}  {}  {} registers\n", good ? "ok   " : "WRONG", CallText(call), schedule,
               report.registers);
    if (!report.clean())
      fmt::print("       {} + {} bytes spilled, {} bytes of stack\n", report.spill_store_bytes,
                 report.spill_load_bytes, report.stack_bytes);
    for (const std::string& line : report.pipeline) fmt::print("       {}\n", line);
    return good;
  }

 private:
  Solved solved_;
  std::string ptxas_, target_;
  std::map<std::string, int64_t> spills_;  // by kernel
  std::set<std::string> seen_;
};

int Main(int argc, char** argv) {
  const std::string ptxas =
      backend::FindPtxas({"", FromEnvironment("CUDA_HOME"), FromEnvironment("PATH")});
  if (ptxas.empty()) {
    fmt::print("SKIP: no ptxas on this machine\n");
    return kSkipped;
  }
  constexpr std::string_view kTarget = "--target=", kSpill = "--spill=";
  std::string target;
  std::map<std::string, int64_t> spills;
  for (; argc > 1 && argv[1][0] == '-'; --argc, ++argv) {
    const std::string_view word = argv[1];
    if (word.rfind(kTarget, 0) == 0) {
      target = word.substr(kTarget.size());
    } else if (word.rfind(kSpill, 0) == 0) {
      std::stringstream known{argv[1] + kSpill.size()};
      for (std::string one; std::getline(known, one, ',');) {
        const size_t colon = one.find(':');
        if (colon == std::string::npos) return 2;
        spills[one.substr(0, colon)] = std::atoll(one.c_str() + colon + 1);
      }
    } else {
      return 2;
    }
  }
  if (argc < 3) return 2;
  Assembler assembler(ptxas, std::move(target), std::move(spills));
  const int failed = VisitCalls(argv[argc - 1], std::vector<std::string>(argv + 1, argv + argc - 1),
                                [&](const api::Loaded& loaded, const frontend::TestCallInfo& call,
                                    const std::string& schedule, DiagSink& diags) {
                                  return assembler.One(loaded, call, schedule, diags);
                                });
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
