// The verifier of warp programs on every call of the `test` blocks of .tile files, lowered with one
// role and with --schedule=solve: all are accepted. Then each program is broken in one place at a
// time: every mutant is rejected, or stands in the table of those that are no mistake, with the
// reason.
//
//   warp_check_test FILE.tile…
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "api/pipeline.h"
#include "api/stdlib.h"
#include "ir/text.h"
#include "ir/warp_check/check.h"
#include "ir/warp_check/rate.h"
#include "support/diag.h"
#include "tests/test_calls.h"
#include "tests/warp_check/mutants.h"

namespace tilec {
namespace {

using Uses = std::vector<ir::WarpOpUse>;

const ir::WarpOpUse& UseOf(const Uses& uses, ir::OpId id) {
  return uses[static_cast<size_t>(id.index)];
}

// The largest count behind a scalar that is computed from a counter.
int64_t LargestCount(const ir::Function& fn, const Uses& uses, ir::ValueId v) {
  const ir::Op* def = fn.def(v);
  if (!def) return INT64_MAX;
  if (def->kind == ir::OpKind::kCounterRead) return UseOf(uses, fn.values[v].def).largest;
  return def->operands.empty() ? INT64_MAX : LargestCount(fn, uses, def->operands[0]);
}

bool Needed(const ir::Function& fn, const Uses& uses, ir::OpId id) {
  if (fn.ops[id].kind != ir::OpKind::kElect) return UseOf(uses, id).needed;
  for (ir::OpId inner : fn.blocks[fn.ops[id].regions[0]].ops)
    if (UseOf(uses, inner).needed) return true;
  return false;
}

// Mutants that are no mistake: why, and how that is seen.
struct Harmless {
  const char* kinds;  // separated by "; "
  const char* reason;
  bool (*holds)(const ir::Function& fn, const Uses& uses, const ir::Mutant& mutant);
};

constexpr Harmless kHarmless[] = {
    {"remove mbar_wait; slot 0 awaited",
     "the slot is filled for the first time: the wait passes at once",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
    {"loaded before mbar_wait", "the slot is filled for the first time: the wait passes at once",
     [](const auto& fn, const auto& uses, const auto& m) {
       const auto& ops = fn.blocks[fn.ops[m.op].block].ops;
       ir::OpId wait;
       for (ir::OpId id : ops) {
         if (id == m.op) break;
         if (fn.ops[id].kind == ir::OpKind::kMbarWait) wait = id;
       }
       return !Needed(fn, uses, wait);
     }},
    {"remove mbar_arrive; released before mma_wait; slot 0 released",
     "nobody waits for the last release of a ring",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
    {"released before mma_wait; loaded before mbar_wait",
     "a ring in step with this one, refilled by the same loop, is released after the wait",
     [](const auto& fn, const auto&, const auto& m) {
       std::set<ir::ValueId> refilled, released;
       ir::ValueId mine;
       for (ir::OpId inner : fn.blocks[fn.ops[m.op].regions[0]].ops)
         if (fn.ops[inner].kind == ir::OpKind::kMbarArrive) mine = fn.ops[inner].operands[0];
       for (const ir::Block& block : fn.blocks) {
         std::set<ir::ValueId> awaited;
         bool after = false, here = false;  // an mma_wait; the mutated op, or a wait for its ring
         for (ir::OpId id : block.ops) {
           const ir::Op& op = fn.ops[id];
           if (op.kind == ir::OpKind::kMbarWait) {
             here = here || op.operands[0] == mine;
             if (op.operands[0] != mine) awaited.insert(op.operands[0]);
           }
           after = after || op.kind == ir::OpKind::kMmaWait;
           here = here || (!mine.valid() && id == m.op);
           if (op.kind == ir::OpKind::kElect && after && id != m.op)
             for (ir::OpId inner : fn.blocks[op.regions[0]].ops)
               if (fn.ops[inner].kind == ir::OpKind::kMbarArrive)
                 released.insert(fn.ops[inner].operands[0]);
         }
         if (here) refilled.insert(awaited.begin(), awaited.end());
       }
       for (ir::ValueId v : refilled)
         if (released.count(v)) return true;
       return false;
     }},
    {"slot 0 released; slot 0 awaited; slots of a shallower ring; parity of a shallower ring",
     "so early in the program that the count is small: the value is the same",
     [](const auto& fn, const auto& uses, const auto& m) {
       const ir::Op& op = fn.ops[m.op];
       const bool slot = op.kind == ir::OpKind::kMbarWait || op.kind == ir::OpKind::kMbarArrive;
       const int64_t most = LargestCount(fn, uses, slot ? op.operands.back() : op.operands[0]);
       return most < (slot ? 1 : static_cast<int64_t>(fn.def(op.operands[1])->number("value")) - 1);
     }},
    {"remove counter_add; count twice", "the counter is not read afterwards",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
    {"operand let go", "a later wait, which ends the product, keeps it",
     [](const auto&, const auto& uses, const auto& m) { return !UseOf(uses, m.op).holds; }},
    {"remove mma_wait",
     "the product goes into the accumulator of the next, and groups end in order",
     [](const auto& fn, const auto&, const auto& m) {
       for (const ir::Op& user : fn.ops)
         for (size_t i = 0; i < user.operands.size(); ++i)
           if (user.operands[i] == fn.ops[m.op].results[0] &&
               (user.kind != ir::OpKind::kMmaFence || i != 0))
             return false;
       return true;
     }},
    {"remove mma_commit", "another product is committed before the wait for both",
     [](const auto& fn, const auto&, const auto& m) {
       bool after = false, again = false;
       for (ir::OpId id : fn.blocks[fn.ops[m.op].block].ops) {
         const ir::Op& op = fn.ops[id];
         if (after && op.kind == ir::OpKind::kMmaCommit) again = true;
         if (after && op.kind == ir::OpKind::kMmaWait) return again && op.i("pending") == 0;
         after = after || id == m.op;
       }
       return false;
     }},
    {"remove cta_sync", "no two accesses are ordered by this barrier alone",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
    {"remove fence_async", "no ordinary and asynchronous access are ordered by this fence alone",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
};

struct Counts {
  int loops = 0, unrated = 0, programs = 0, mutants = 0, rejected = 0, equal = 0, survived = 0;
  double slowest_ms = 0;
  std::map<std::string, int> codes, reasons;
};

class Tester {
 public:
  explicit Tester(ir::Target target) : target_(std::move(target)) {}
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
      for (const frontend::TestCallInfo& call : test.calls)
        for (const char* schedule : {"sequential", "solve"}) {
          DiagSink said;
          if (!One(loaded, call, schedule, said).ok()) {
            fmt::print("{} {}\n{}", call.kernel, schedule, RenderAll(said, loaded.sources));
            ++failed;
          }
        }
    return failed;
  }
  const Counts& counts() const { return counts_; }

 private:
  Result<> One(const api::Loaded& loaded, const frontend::TestCallInfo& call, const char* schedule,
               DiagSink& diags) {
    TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
    api::PipelineOptions options;
    options.schedule = schedule;
    TRY(ir::Function fn, api::MakeTileIr(loaded, call.kernel, bound, nullptr, diags));
    TRY(fn, api::LowerToWarps(loaded, std::move(fn), options, nullptr, diags));  // accepts it
    if (!seen_.insert(ir::Print(fn)).second) return Done();
    ++counts_.programs;
    const auto start = std::chrono::steady_clock::now();
    TRY(const ir::WarpCheckStats stats, ir::CheckWarps(fn, {}, diags));
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    if (ms.count() > counts_.slowest_ms) {
      counts_.slowest_ms = ms.count();
      fmt::print("{:7.2f} ms {:6} states {:8} ops  {} {}\n", ms.count(), stats.states, stats.ops,
                 call.kernel, schedule);
    }
    TRY(const std::vector<ir::LoopRate> rates, ir::RatesOf(fn, target_, diags));
    for (const ir::LoopRate& rate : rates) {
      ++counts_.loops;
      counts_.unrated += rate.Cycles() == 0;
      if (rate.order.circle.empty() || rate.busy < 1000) continue;
      fmt::print("{:5} cycles per turn by order, {:5} of {}: {} {}\n", rate.order.Ceil(), rate.busy,
                 rate.unit, call.kernel, schedule);
    }
    for (const ir::Mutant& m : ir::MutantsOf(fn)) {
      ir::Function mutant = fn;
      m.apply(mutant);
      ++counts_.mutants;
      DiagSink said;
      if (!ir::CheckWarps(mutant, {}, said).ok()) {
        ++counts_.rejected;
        ++counts_.codes[said.all()[0].def->name];
        continue;
      }
      const Harmless* why = nullptr;
      for (const Harmless& h : kHarmless)
        if (fmt::format("; {}; ", h.kinds).find(fmt::format("; {}; ", m.kind)) !=
                std::string::npos &&
            h.holds(fn, stats.uses, m))
          why = &h;
      if (why) {
        ++counts_.equal;
        ++counts_.reasons[fmt::format("{}: {}", m.kind, why->reason)];
        continue;
      }
      ++counts_.survived;
      const ir::OpId role = ir::RoleOf(fn, m.op);
      fmt::print("SURVIVES {} {}: {}, role {}: {}\n", call.kernel, schedule, m.kind,
                 role.valid() ? fn.ops[role].s("name") : "-", ir::PrintOp(fn, m.op));
    }
    return Done();
  }

  ir::Target target_;
  std::set<std::string> seen_;
  Counts counts_;
};

int Main(int argc, char** argv) {
  DiagSink diags;
  Result<ir::Target> target = ir::LoadBuiltinTarget("h200", diags);
  if (!target.ok()) return 1;
  Tester tester(std::move(*target));
  int failed = 0;
  for (int i = 1; i < argc; ++i) failed += tester.File(argv[i]);
  const Counts& c = tester.counts();
  fmt::print(
      "{} programs accepted, slowest {:.2f} ms; {} mutants: {} rejected, {} no mistake, {} "
      "survive\n",
      c.programs, c.slowest_ms, c.mutants, c.rejected, c.equal, c.survived);
  fmt::print("{} loops have a period, {} have none\n", c.loops - c.unrated, c.unrated);
  for (const auto& [name, n] : c.codes) fmt::print("  {:5} rejected by {}\n", n, name);
  for (const auto& [name, n] : c.reasons) fmt::print("  {:5} {}\n", n, name);
  return failed || c.survived ? 1 : 0;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
