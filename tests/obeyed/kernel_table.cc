// What became of every pipelined kernel, a row of Markdown for each role of each of its loops: what
// the scheduler promised, what the emitted PTX has (docs/kernels.md; scripts/kernels).
//
//   kernel_table FILE.tile…
//
// Kernels have the tunes of their defaults, and the sizes of the first calls of their `test` blocks
// that leave the tunes alone. A turn is counted along the shortest way through the loop's blocks
// for an elected thread of the role: that is the version without masks, where there are two, and a
// wait that is over when it is tried.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/pipeline.h"
#include "backend/ptxas.h"
#include "ir/passes/defer_unlikely.h"
#include "tests/obeyed/counted.h"
#include "tests/test_calls.h"

namespace tilec {
namespace {

using obeyed::Code;

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

class Table {
 public:
  explicit Table(std::string ptxas) : ptxas_(std::move(ptxas)) {}

  Result<bool> One(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                   const std::string& schedule, DiagSink& diags) {
    TRY(const frontend::Signature signature,
        frontend::SignatureOf(*loaded.program, call.kernel, diags));
    for (const frontend::TuneInfo& tune : signature.tunes)
      if (call.args.count(tune.name)) return true;
    TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
    api::PipelineOptions options;
    options.schedule = schedule;
    api::Lowered lowered;
    api::Observation look;
    look.lowered = &lowered;
    TRY(ir::Function fn, api::MakeTileIr(loaded, call.kernel, bound, &look, diags));
    std::string name = fmt::format("`{}`", call.kernel);
    for (const auto& [what, value] : fn.statics) name += fmt::format(" {}={}", what, value);
    TRY(fn, api::LowerToWarps(loaded, ir::Likely(std::move(fn)), options, &look, diags));
    TRY(const backend::KernelImage image, api::MakeImage(loaded, fn, options, &look, diags));
    std::string why;
    const std::unique_ptr<Code> code = Code::Read(image.ptx, &why);
    if (!code) {
      fmt::print("{}: {}\n", call.kernel, why);
      return false;
    }
    if (!seen_.insert(image.ptx).second || !seen_.insert(name).second) return true;
    TRY_VOID(Rows(name, fn, lowered, *code, image, diags));
    return true;
  }

 private:
  Result<> Rows(const std::string& name, const ir::Function& fn, const api::Lowered& lowered,
                const Code& code, const backend::KernelImage& image, DiagSink& diags) {
    std::vector<const ir::Op*> roles;
    std::set<ir::ValueId> filled;
    std::vector<int64_t> rings;
    for (ir::OpId id : ir::OpsInOrder(fn)) {
      const ir::Op& op = fn.ops[id];
      if (op.kind == ir::OpKind::kRole) roles.push_back(&op);
      if (op.kind == ir::OpKind::kMbarExpect && filled.insert(op.operands[0]).second &&
          fn.type(op.operands[0]).depth > 1)
        rings.push_back(fn.type(op.operands[0]).depth);
    }
    if (roles.size() < 2) return Done();  // nothing runs ahead
    std::string ptxas = "–";
    if (!ptxas_.empty()) {
      TRY(const backend::PtxasReport report,
          backend::Assemble(image.ptx, image.target, ptxas_, diags));
      ptxas = fmt::format("{}", report.registers);
      if (report.spill_store_bytes + report.spill_load_bytes > 0)
        ptxas += fmt::format(", {} B spilled", report.spill_store_bytes + report.spill_load_bytes);
    }
    std::vector<std::string> ii, stages;
    for (const scheduler::LoopReport& loop : lowered.schedule.loops)
      if (lowered.by_schedule && loop.applied) {
        ii.push_back(fmt::format("{}", loop.solution.schedule.ii));
        stages.push_back(fmt::format("{}", Stages(loop.solution.schedule)));
      }
    if (ii.empty()) ii = stages = {"by rule"};
    bool first = true;
    for (const ir::Op* role : roles) {
      const int warp = static_cast<int>(role->i("first_warp"));
      for (const obeyed::Loop* loop : obeyed::SteadyLoops(code, warp)) {
        const std::optional<obeyed::Iteration> counted = obeyed::CountIteration(code, *loop, warp);
        if (!counted) continue;
        const obeyed::Iteration& turn = *counted;
        fmt::print("| {} | {} | {} | {} | {} × {} | {} | {} | {} + {} + {} | {} | {} |\n",
                   first ? name : "", first ? fmt::format("{}", fmt::join(ii, ", ")) : "",
                   first ? fmt::format("{}", fmt::join(stages, ", ")) : "",
                   first ? fmt::format("{}", fmt::join(rings, ", ")) : "", role->s("name"),
                   role->i("warps"), role->i("regs") > 0 ? fmt::format("{}", role->i("regs")) : "–",
                   first ? ptxas : "", turn.full, turn.mma, turn.sync,
                   turn.products > 0 ? fmt::format("{}", turn.products) : "", turn.instructions);
        first = false;
      }
    }
    return Done();
  }

  static int64_t Stages(const ir::Schedule& schedule) {
    int64_t last = 0;
    for (const ir::ScheduledOp& op : schedule.ops)
      last = std::max(last, op.cycle / std::max<int64_t>(1, schedule.ii));
    return last + 1;
  }

  std::string ptxas_;
  std::set<std::string> seen_;
};

int Main(int argc, char** argv) {
  Table table(backend::FindPtxas({"", FromEnvironment("CUDA_HOME"), FromEnvironment("PATH")}));
  int failed = 0;
  for (int i = 1; i < argc; ++i)
    failed += VisitCalls(argv[i], {"solve"},
                         [&](const api::Loaded& loaded, const frontend::TestCallInfo& call,
                             const std::string& schedule,
                             DiagSink& diags) { return table.One(loaded, call, schedule, diags); });
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
