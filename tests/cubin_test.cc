// Every call of the `test` blocks of .tile files, compiled to PTX and assembled by ptxas: the
// assembler is an independent judge of what the backend writes, and says what became of registers.
// Nothing may spill, and no product may be serialised.
//
//   cubin_test [--target=MACHINE] SCHEDULE… FILE.tile
//
// Where there is no ptxas the test says so and is skipped (exit code 77).
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
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
  Assembler(std::string ptxas, std::string target)
      : ptxas_(std::move(ptxas)), target_(std::move(target)) {}

  Result<bool> One(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                   const std::string& schedule, DiagSink& diags) {
    TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
    api::PipelineOptions options;
    options.schedule = schedule;
    if (!target_.empty()) options.target = target_;
    TRY(const backend::KernelImage image,
        api::CompileCall(loaded, call.kernel, bound, options, nullptr, nullptr, nullptr, diags));
    if (!seen_.insert(image.ptx).second) return true;  // the same kernel for other sizes
    TRY(const backend::PtxasReport report,
        backend::Assemble(image.ptx, image.target, ptxas_, diags));
    fmt::print("{}  {}  {}  {} registers\n", report.clean() ? "ok   " : "WRONG", CallText(call),
               schedule, report.registers);
    if (!report.clean())
      fmt::print("       {} + {} bytes spilled, {} bytes of stack\n", report.spill_store_bytes,
                 report.spill_load_bytes, report.stack_bytes);
    for (const std::string& line : report.pipeline) fmt::print("       {}\n", line);
    return report.clean();
  }

 private:
  std::string ptxas_, target_;
  std::set<std::string> seen_;
};

int Main(int argc, char** argv) {
  const std::string ptxas =
      backend::FindPtxas({"", FromEnvironment("CUDA_HOME"), FromEnvironment("PATH")});
  if (ptxas.empty()) {
    fmt::print("SKIP: no ptxas on this machine\n");
    return kSkipped;
  }
  const std::string on = "--target=";
  std::vector<std::string> schedules(argv + 1, argv + std::max(1, argc - 1));
  std::string target;
  if (!schedules.empty() && schedules[0].rfind(on, 0) == 0) {
    target = schedules[0].substr(on.size());
    schedules.erase(schedules.begin());
  }
  if (schedules.empty()) return 2;
  Assembler assembler(ptxas, target);
  const int failed = VisitCalls(argv[argc - 1], schedules,
                                [&](const api::Loaded& loaded, const frontend::TestCallInfo& call,
                                    const std::string& schedule, DiagSink& diags) {
                                  return assembler.One(loaded, call, schedule, diags);
                                });
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
