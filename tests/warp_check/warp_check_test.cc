// The verifier of warp programs on every call of the `test` blocks of .tile files, lowered with one
// role and with --schedule=solve: all are accepted. Then each program is broken in one place at a
// time: every mutant is rejected, or stands in the table of those that are no mistake, with the
// reason.
//
//   warp_check_test [--all] [--only=MUTANT] [--target=MACHINE] [--schedule=FILE.sched] FILE.tile…
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/divided.h"
#include "api/pipeline.h"
#include "ir/text.h"
#include "ir/warp_check/check.h"
#include "ir/warp_check/rate.h"
#include "support/diag.h"
#include "tests/test_calls.h"
#include "tests/unit/h200.h"
#include "tests/warp_check/mutants.h"

namespace tilec {
namespace {

struct Counts {
  int loops = 0, unrated = 0, programs = 0, mutants = 0, rejected = 0, equal = 0, survived = 0,
      left_out = 0;
  double slowest_ms = 0;
  std::map<std::string, int> codes, reasons;
};

constexpr int kNeverAgreed = 100;  // loops around a wait: no program has so many

class Tester {
 public:
  Tester(ir::Target target, bool all, std::string only)
      : target_(std::move(target)), all_(all), only_(std::move(only)) {}
  const Counts& counts() const { return counts_; }

  // Each launch of the call. false: never; what is not accepted is a diagnostic, what survives is
  // counted.
  Result<bool> One(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                   const std::string& schedule, DiagSink& diags) {
    TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
    api::PipelineOptions options;
    options.schedule = schedule;
    options.solutions = solved_.store();
    options.target = target_.name;
    TRY(ir::Function tile, api::MakeTileIr(loaded, call.kernel, bound, nullptr, diags));
    if (!api::MayBeSeveral(tile, options))
      return Check(loaded, std::move(tile), options, call.kernel, diags);
    TRY(api::Launches launches, api::LaunchesOf(loaded, std::move(tile), options, diags));
    for (api::LaunchProgram& launch : launches.programs)
      TRY_VOID(Check(loaded, std::move(launch.fn), launch.options, call.kernel, diags));
    return true;
  }

 private:
  Result<bool> Check(const api::Loaded& loaded, ir::Function tile,
                     const api::PipelineOptions& options, const std::string& kernel,
                     DiagSink& diags) {
    const std::string& schedule = options.schedule;
    TRY(ir::Function fn, api::LowerToWarps(loaded, std::move(tile), options, nullptr, diags));
    if (!seen_.insert(ir::Print(fn)).second) return true;
    ++counts_.programs;
    const auto start = std::chrono::steady_clock::now();
    TRY(ir::WarpCheckStats stats, ir::CheckWarps(fn, ir::WarpCheckOptions(target_), diags));
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    if (ms.count() > counts_.slowest_ms) {
      counts_.slowest_ms = ms.count();
      fmt::print("{:7.2f} ms {:6} states {:8} ops  {} {}\n", ms.count(), stats.states, stats.ops,
                 kernel, schedule);
    }
    // What ops are good for says the walk that forgets least: what relates iterations, if that is a
    // proof; else what roles agree on.
    ir::WarpCheckOptions together(target_);
    together.apart = false;
    ir::WarpVerdict whole = ir::ProveWarps(fn, together);
    if (whole.proof == ir::WarpProof::kProved) stats = std::move(whole.stats);
    ir::WarpCheckOptions related = together;
    related.agree_depth = kNeverAgreed;
    ir::WarpVerdict least = ir::ProveWarps(fn, related);
    if (least.proof == ir::WarpProof::kProved) stats = std::move(least.stats);
    if (whole.proof == ir::WarpProof::kRefuted) {
      ++counts_.survived;
      fmt::print("PROVED only with slots apart: {} {}\n", kernel, schedule);
    }
    // A right program is one with less room for its proof, too: given up, if not proved.
    for (ir::WarpCheckOptions less : {ir::WarpCheckOptions(target_), together}) {
      less.max_ops = stats.ops / 2;
      if (ir::ProveWarps(fn, less).proof != ir::WarpProof::kRefuted) continue;
      ++counts_.survived;
      fmt::print("REFUTED with half the room: {} {}\n", kernel, schedule);
    }
    TRY(const std::vector<ir::LoopRate> rates, ir::RatesOf(fn, target_, diags));
    for (const ir::LoopRate& rate : rates) {
      ++counts_.loops;
      counts_.unrated += rate.Cycles() == 0;
      if (rate.order.circle.empty() || rate.busy < 1000) continue;
      fmt::print("{:5} cycles per turn by order, {:5} of {}: {} {}\n", rate.order.Ceil(), rate.busy,
                 rate.unit, kernel, schedule);
    }
    // Programs of many moments get a sample, another one each; `--all` leaves none out.
    // (Mutants of one that only slots apart prove are walked to the limits.)
    const bool long_walks = whole.proof == ir::WarpProof::kGivenUp;
    const int64_t every = all_ ? 1 : 1 + (long_walks ? together.max_states : stats.states) / 20;
    int64_t number = counts_.programs;
    for (const ir::Mutant& m : ir::MutantsOf(fn)) {
      if (!only_.empty() && m.kind != only_) continue;
      if (++number % every != 0) {
        ++counts_.left_out;
        continue;
      }
      ++counts_.mutants;
      const ir::MutantVerdict verdict = ir::Judge(fn, stats.uses, m, target_);
      switch (verdict.kind) {
        case ir::MutantVerdict::Kind::kRejected:
          ++counts_.rejected;
          ++counts_.codes[verdict.text];
          break;
        case ir::MutantVerdict::Kind::kHarmless:
          ++counts_.equal;
          ++counts_.reasons[fmt::format("{}: {}", m.kind, verdict.text)];
          break;
        case ir::MutantVerdict::Kind::kSurvives:
          ++counts_.survived;
          fmt::print("SURVIVES {} {}: {}\n", kernel, schedule, verdict.text);
          break;
      }
    }
    return true;
  }

  ir::Target target_;
  Solved solved_;
  std::set<std::string> seen_;
  bool all_;
  std::string only_;  // the kind of mutants that are looked at; "": all
  Counts counts_;
};

int Main(int argc, char** argv) {
  DiagSink diags;
  const bool all = argc > 1 && std::string(argv[1]) == "--all";
  const std::string on = "--target=", kind = "--only=";
  std::string machine = "h200", only;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind(on, 0) == 0) machine = arg.substr(on.size());
    if (arg.rfind(kind, 0) == 0) only = arg.substr(kind.size());
  }
  Result<ir::Target> target = ir::LoadBuiltinTarget(machine, diags);
  if (!target.ok()) return 1;
  Tester tester(std::move(*target), all, only);
  int failed = 0;
  std::vector<std::string> schedules = {"sequential", "solve"};
  for (int i = all ? 2 : 1; i < argc; ++i) {
    const std::string arg = argv[i], option = "--schedule=";
    if (arg.rfind(on, 0) == 0 || arg.rfind(kind, 0) == 0) continue;
    if (arg.rfind(option, 0) == 0) {
      schedules = {arg.substr(option.size())};
      continue;
    }
    failed += VisitCalls(arg, schedules,
                         [&](const api::Loaded& loaded, const frontend::TestCallInfo& call,
                             const std::string& schedule,
                             DiagSink& said) { return tester.One(loaded, call, schedule, said); });
  }
  const Counts& c = tester.counts();
  fmt::print(
      "{} programs accepted, slowest {:.2f} ms; {} mutants: {} rejected, {} no mistake, {} "
      "survive, {} left out\n",
      c.programs, c.slowest_ms, c.mutants, c.rejected, c.equal, c.survived, c.left_out);
  fmt::print("{} loops have a period, {} have none\n", c.loops - c.unrated, c.unrated);
  for (const auto& [name, n] : c.codes) fmt::print("  {:5} rejected by {}\n", n, name);
  for (const auto& [name, n] : c.reasons) fmt::print("  {:5} {}\n", n, name);
  return failed || c.survived ? 1 : 0;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
