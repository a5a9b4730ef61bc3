// Every call of the `test` blocks of one .tile file, compiled to PTX with one role and with
// --schedule=solve's roles, and assembled by ptxas: the
// assembler is an independent judge of what the backend writes, and says what became of registers.
// Nothing may spill, and no product may be serialised.
//
//   cubin_test FILE.tile…
//
// Where there is no ptxas the test says so and is skipped (exit code 77).
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "api/pipeline.h"
#include "api/stdlib.h"
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
  explicit Assembler(std::string ptxas) : ptxas_(std::move(ptxas)) {}

  // Number of calls that failed.
  int File(const std::string& path) {
    api::Loaded loaded;
    DiagSink diags;
    auto program = api::LoadProgram(loaded.sources, path, api::StandardLibrary(), diags);
    if (!program.ok()) {
      fmt::print("{}", RenderAll(diags, loaded.sources));
      return 1;
    }
    loaded.program = std::move(*program);
    int failed = 0;
    for (const frontend::TestInfo& test : loaded.program->tests())
      for (const frontend::TestCallInfo& call : test.calls) {
        for (const char* schedule : {"sequential", "solve"}) {
          DiagSink said;
          const auto clean = One(loaded, call, schedule, said);
          if (!clean.ok()) fmt::print("{}", RenderAll(said, loaded.sources));
          if (!clean.ok() || !*clean) ++failed;
        }
      }
    return failed;
  }

 private:
  Result<bool> One(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                   const char* schedule, DiagSink& diags) {
    TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
    api::PipelineOptions options;
    options.schedule = schedule;
    TRY(const backend::KernelImage image,
        api::CompileCall(loaded, call.kernel, bound, options, nullptr, nullptr, nullptr, diags));
    if (!seen_.insert(image.ptx).second) return true;  // the same kernel for other sizes
    TRY(const backend::PtxasReport report,
        backend::Assemble(image.ptx, image.target, ptxas_, diags));
    // C7517 is one more wait, not serialized products; it is printed (linear_attention, T = 333).
    backend::PtxasReport judged = report;
    std::erase_if(judged.pipeline, [](const std::string& line) {
      return line.find("(C7517)") != std::string::npos;
    });
    fmt::print("{}  {}  {}  {} registers\n", judged.clean() ? "ok   " : "WRONG", CallText(call),
               schedule, report.registers);
    if (!report.clean())
      fmt::print("       {} + {} bytes spilled, {} bytes of stack\n", report.spill_store_bytes,
                 report.spill_load_bytes, report.stack_bytes);
    for (const std::string& line : report.pipeline) fmt::print("       {}\n", line);
    return judged.clean();
  }

  std::string ptxas_;
  std::set<std::string> seen_;
};

int Main(int argc, char** argv) {
  const std::string ptxas =
      backend::FindPtxas({"", FromEnvironment("CUDA_HOME"), FromEnvironment("PATH")});
  if (ptxas.empty()) {
    fmt::print("SKIP: no ptxas on this machine\n");
    return kSkipped;
  }
  Assembler assembler(ptxas);
  int failed = 0;
  for (int i = 1; i < argc; ++i) failed += assembler.File(argv[i]);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
