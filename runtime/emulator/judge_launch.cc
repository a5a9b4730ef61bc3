// A judge's life: made for a launch and for each of its clusters, asked whether a cluster waits for
// another one, and told the end. Faults of the executor become findings like the judge's own.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/limits.h"

namespace tilec::runtime::emulator {

void JudgeEnd(Cluster& cluster, bool stuck) {
  if (cluster.judge == nullptr) return;
  cluster.judge->AtEnd(
      [&](uint32_t rank, uint32_t offset) -> int64_t {
        const auto& barriers = cluster.ctas[rank].mbarriers;
        auto it = barriers.find(offset);
        return it == barriers.end() ? 0 : it->second.tx();
      },
      stuck);
  cluster.judge = nullptr;
}

bool WaitsForOthers(Cluster& c) {
  constexpr uint64_t kPolls = 100;  // strong loads in one slice
  if (c.judge == nullptr) return false;
  uint64_t loads = c.judge->strong_loads(), writes = c.launch->judge->global_writes;
  bool waits = loads - c.judged_loads > kPolls && writes == c.judged_writes;
  c.judged_loads = loads;
  c.judged_writes = writes;
  return waits;
}

void ReportWaiting(Cluster& c, uint64_t resident, uint64_t unstarted) {
  c.failed = true;
  c.fault = {};
  c.fault.def = &kDeadlock;
  c.fault.rule = unstarted > 0 ? judge::Rule::kS8 : judge::Rule::kS1;
  c.fault.line = c.launch->program->code[c.judge->strong_load_pc()].line;
  if (unstarted > 0) {
    c.fault.message = fmt::format(
        "{} clusters poll global memory, and the {} others cannot start before one of them ends",
        resident, unstarted);
    c.fault.helps.push_back(
        "launch no more CTAs than the machine holds, or let CTAs wait for "
        "CTAs of smaller numbers only");
  } else {
    c.fault.message =
        fmt::format("all {} clusters left poll global memory, and nobody writes", resident);
  }
}

uint64_t ResidentClusters(const Launch& launch) {
  return ResidentClusters(launch.options->machine, launch.config, launch.smem_total,
                          launch.program->maxnreg);
}

void StartJudge(Cluster& c) {
  if (c.launch->judge == nullptr) return;
  judge::ClusterShape shape;
  shape.number = c.number;
  shape.warps_per_cta = static_cast<uint32_t>(c.ctas[0].warps.size());
  for (const Cta& cta : c.ctas)
    shape.ctas.push_back({{cta.id[0], cta.id[1], cta.id[2]}, cta.smem_bytes});
  for (const Warp& w : c.ctas[0].warps) shape.lanes.push_back(w.launched);
  c.judge = std::make_unique<judge::Judge>(c.launch->judge, shape);
  for (Cta& cta : c.ctas)
    for (Warp& w : cta.warps) {
      w.judge = c.judge.get();
      w.judge_id = cta.rank * shape.warps_per_cta + w.index;
    }
}

void SetUpJudge(Launch& launch, judge::LaunchJudge* judge) {
  judge->entry = launch.program->name;
  judge->seed = launch.options->seed;
  judge->numbers = launch.options->check_numbers;
  judge->lint = launch.options->report->lint();
  judge->banks = launch.options->check_banks || judge->lint;
  judge->trace = launch.options->report->trace();
  if (judge->trace != nullptr) judge->trace_launch = judge->trace->launches++;
  judge->registers = &launch.program->watched;
  judge->loaded = &launch.program->loaded;
  judge->site = [&launch](uint32_t pc) {
    const Program& program = *launch.program;
    judge::Site site;
    if (pc >= program.code.size()) return site;
    const Inst& i = program.code[pc];
    site.file = launch.places->name;
    site.line = i.line;
    site.text = program.texts[i.text];
    site.source = launch.places->Source(i.line);
    return site;
  };
  judge->role = [&launch](uint32_t warp) { return launch.places->Role(warp); };
  judge->object = [&launch](uint64_t begin, uint64_t end) {
    return SharedName(launch, begin, end);
  };
  judge->place = [&launch](uint64_t address) -> std::string {
    const auto& table = launch.allocations;
    auto it = std::upper_bound(table.begin(), table.end(), address,
                               [](uint64_t a, const Allocation& x) { return a < x.begin; });
    if (it == table.begin() || address >= (it - 1)->end) return "global memory";
    --it;
    uint64_t offset = address - it->begin;
    const Program& program = *launch.program;
    for (size_t k = 0; k < program.params.size(); ++k) {
      uint64_t value = 0;
      if (program.params[k].second != 8) continue;
      memcpy(&value, launch.params + program.params[k].first, 8);
      if (value == it->begin) return fmt::format("byte {} of argument {}", offset, k);
    }
    return fmt::format("byte {} of an allocation of {}", offset, it->end - it->begin);
  };
  launch.judge = judge;
}

judge::Finding FindingOf(const Fault& fault, const Launch& launch) {
  judge::Finding f;
  f.rule = fault.rule.value_or(RuleOf(*fault.def));
  f.severity = judge::Def(f.rule).severity;
  f.entry = launch.program->name;
  f.message = fault.message;
  judge::Access at;
  at.site.file = launch.places->name;
  at.site.line = fault.line;
  at.site.source = launch.places->Source(fault.line);
  for (const Inst& i : launch.program->code)
    if (i.line == fault.line && at.site.text.empty()) at.site.text = launch.program->texts[i.text];
  f.accesses.push_back(std::move(at));
  f.notes = fault.notes;
  if (!fault.helps.empty()) f.fix = fault.helps[0];
  f.seed = launch.options->seed;
  return f;
}

}  // namespace tilec::runtime::emulator
