// The changes that are no mistake, and why.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/text.h"
#include "ir/verify.h"
#include "support/diag.h"
#include "tests/warp_check/dead_code.h"
#include "tests/warp_check/executions.h"
#include "tests/warp_check/mutants.h"

namespace tilec::ir {
namespace {

const WarpOpUse& UseOf(const Uses& uses, OpId id) { return uses[static_cast<size_t>(id.index)]; }

// What is known of the counts behind a scalar that is computed from a counter.
const WarpOpUse* CountOf(const Function& fn, const Uses& uses, ValueId v) {
  const Op* def = fn.def(v);
  if (!def) return nullptr;
  if (def->kind == OpKind::kCounterRead) return &UseOf(uses, fn.values[v].def);
  return def->operands.empty() ? nullptr : CountOf(fn, uses, def->operands[0]);
}

bool Needed(const Function& fn, const Uses& uses, OpId id) {
  if (fn.ops[id].kind != OpKind::kElect) return UseOf(uses, id).needed;
  for (OpId inner : fn.blocks[fn.ops[id].regions[0]].ops)
    if (UseOf(uses, inner).needed) return true;
  return false;
}

// Several reasons ask for them: executed once.
const Executions& Executed(const Function& fn, const Mutant& m) {
  if (m.seen) return *m.seen;
  Function mutant = fn;
  m.apply(mutant);
  return m.seen.emplace(Execute(mutant, fn.ops[m.op].block));
}

// Other waits do the work of the one that is gone or comes late: wherever the program is executed,
// bytes are touched again only after what came before, phases come and go as they should, and
// products have their registers to themselves.
bool OthersOrderIt(const Function& fn, const Uses&, const Mutant& m) {
  const Executions& seen = Executed(fn, m);
  return seen.fault.empty() && seen.runs > 0;
}

// A tile that goes into products as their accumulator, however control passes it on, and to waits.
bool OnlyAccumulated(const Function& fn, ValueId v, std::set<ValueId>* seen) {
  if (!seen->insert(v).second) return true;
  for (OpId id : OpsInOrder(fn)) {
    const Op& user = fn.ops[id];
    for (size_t i = 0; i < user.operands.size(); ++i) {
      if (user.operands[i] != v) continue;
      std::vector<ValueId> next;
      const Op* around = nullptr;
      switch (user.kind) {
        case OpKind::kMmaFence:
          if (i != 0) return false;
          break;
        case OpKind::kMmaWait:
          if (i >= user.results.size()) return false;
          break;
        case OpKind::kFor:
          if (i < 2) return false;
          next = {fn.blocks[user.regions[0]].args[i - 1], user.results[i - 2]};
          break;
        case OpKind::kYield:
          around = &fn.ops[fn.blocks[user.block].parent];
          if (around->kind != OpKind::kFor && around->kind != OpKind::kIf) return false;
          next.push_back(around->results[i]);
          if (around->kind == OpKind::kFor) next.push_back(fn.blocks[user.block].args[i + 1]);
          break;
        default: return false;
      }
      for (ValueId passed : next)
        if (!OnlyAccumulated(fn, passed, seen)) return false;
    }
  }
  return true;
}

// The walk that accepted the original took a branch, the one that accepts the mutant does not: the
// first one may take more ways than there are.
bool BranchNotTaken(const Function& fn, const Uses& uses, const Mutant& m, const Uses& now) {
  BlockId branch = fn.ops[m.op].block;
  while (fn.blocks[branch].parent.valid() && fn.ops[fn.blocks[branch].parent].kind != OpKind::kIf)
    branch = fn.ops[fn.blocks[branch].parent].block;
  int before = 0;
  for (OpId id : fn.blocks[branch].ops) {
    if (id == m.op || !UseOf(uses, id).reached) continue;
    ++before;
    if (UseOf(now, id).reached) return false;
  }
  return before > 0 && fn.blocks[branch].parent.valid();
}

// Is what is computed from it a slot in which threads leave what products read, and nothing else?
bool OnlyPlacesOperands(const Function& fn, ValueId v) {
  for (OpId id : OpsInOrder(fn)) {
    const Op& user = fn.ops[id];
    for (size_t i = 0; i < user.operands.size(); ++i) {
      if (user.operands[i] != v || user.kind == OpKind::kCounterAdd) continue;
      const bool place =
          (user.kind == OpKind::kSmemStore && i == 2) || (user.kind == OpKind::kMma && i >= 3);
      if (place) continue;
      if (user.kind != OpKind::kCounterRead && user.kind != OpKind::kMod) return false;
      if (!OnlyPlacesOperands(fn, user.results[0])) return false;
    }
  }
  return true;
}

// Does it load all of another sum, as wide as its own? (n is a multiple of 16, so n = 16.)
bool LoadsAnotherSum(const Function& fn, const Uses& uses, const Mutant& m) {
  Function mutant = fn;
  m.apply(mutant);
  const Op& load = mutant.ops[m.op];
  return std::any_of(fn.ops.begin(), fn.ops.end(),
                     [&](const Op& op) {
                       return op.kind == OpKind::kTcMma && op.i("column") == load.i("column") &&
                              RoundUp(op.i("n"), 16) == RoundUp(load.i("n"), 16);
                     }) &&
         OthersOrderIt(fn, uses, m);
}

// Mutants that are no mistake: why, and how that is seen.
struct Harmless {
  const char* kinds;  // separated by "; "
  const char* reason;
  bool (*holds)(const Function& fn, const Uses& uses, const Mutant& mutant);
};

constexpr Harmless kHarmless[] = {
    {"*", "no execution takes the branch: its conditions exclude each other",
     [](const auto& fn, const auto& uses, const auto& m) {
       const OpKind kind = fn.ops[m.op].kind;  // allocations are nothing that is executed
       const bool executed = kind != OpKind::kSmemAlloc && kind != OpKind::kMbarAlloc;
       return (executed && !UseOf(uses, m.op).reached) || NeverExecuted(fn, fn.ops[m.op].block);
     }},
    {"remove mbar_wait; slot 0 awaited",
     "an order token: it keeps products of two roles in turn, and the data have rings of their own",
     [](const auto& fn, const auto& uses, const auto& m) {
       const OpId role = RoleOf(fn, m.op);
       if (!role.valid() || fn.ops[role].s("name").rfind("compute", 0) != 0) return false;
       for (const Op& op : fn.ops)
         if (op.kind == OpKind::kMbarExpect && op.operands[0] == fn.ops[m.op].operands[0])
           return false;
       return OthersOrderIt(fn, uses, m);
     }},
    {"remove mbar_wait; slot 0 awaited",
     "the slot is filled for the first time: the wait passes at once",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
    {"loaded before mbar_wait", "the slot is filled for the first time: the wait passes at once",
     [](const auto& fn, const auto& uses, const auto& m) {
       const auto& ops = fn.blocks[fn.ops[m.op].block].ops;
       OpId wait;
       for (OpId id : ops) {
         if (id == m.op) break;
         if (fn.ops[id].kind == OpKind::kMbarWait) wait = id;
       }
       return !Needed(fn, uses, wait);
     }},
    {"remove mbar_arrive; released before mma_wait; slot 0 released",
     "nobody waits for the last release of a ring",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
    // (In the version of a loop for few turns; a walk that forgets how few asks for it.)
    {"remove mbar_arrive", "in executions of all lengths it comes once at most, and nobody waits",
     [](const auto& fn, const auto&, const auto& m) {
       const Executions& seen = Executed(fn, m);
       return seen.fault.empty() && seen.runs > 0 && seen.most <= 1;
     }},
    {"remove mbar_wait; released before mma_wait; loaded before mbar_wait; "
     "copied before mbar_wait; remove tma_commit; remove tma_wait; one more copy pending; one more "
     "product pending; remove cta_sync; "
     "remove mma_commit",
     "in executions of all lengths other waits order the same accesses", OthersOrderIt},
    {"other columns loaded", "another sum, complete by then: which one is meant is no order",
     LoadsAnotherSum},
    {"remove mbar_init; one arrival more; count from one",
     "no execution takes the branches that wait for the barrier or arrive there, or count",
     [](const auto& fn, const auto& uses, const auto& m) {
       const Op& made = fn.ops[m.op];
       const ValueId barrier = made.kind == OpKind::kCounter ? made.results[0] : made.operands[0];
       const std::vector<OpId> ops = OpsInOrder(fn);
       return std::none_of(ops.begin(), ops.end(), [&](OpId id) {
         const Op& op = fn.ops[id];
         const bool names =
             std::find(op.operands.begin(), op.operands.end(), barrier) != op.operands.end();
         return names && id != m.op && UseOf(uses, id).reached && !NeverExecuted(fn, op.block);
       });
     }},
    {"remove tc_fence", "in executions of all lengths other fences order the same accesses",
     OthersOrderIt},
    {"slot 0 released; slot 0 awaited; slots of a shallower ring; parity of a shallower ring",
     "the counts that the program has there give the same value",
     [](const auto& fn, const auto& uses, const auto& m) {
       const Op& op = fn.ops[m.op];
       const bool slot = op.kind == OpKind::kMbarWait || op.kind == OpKind::kMbarArrive;
       const WarpOpUse* count = CountOf(fn, uses, slot ? op.operands.back() : op.operands[0]);
       if (count == nullptr) return false;
       if (slot && count->divides % fn.type(op.operands[0]).depth == 0) return true;
       return count->largest <
              (slot ? 1 : static_cast<int64_t>(fn.def(op.operands[1])->number("value")) - 1);
     }},
    {"a slot less; a barrier less", "in executions of all lengths the last slot is not used",
     OthersOrderIt},
    {"remove counter_add; count twice", "the counter is not read afterwards",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
    {"operand let go", "a later wait, which ends the product, keeps it",
     [](const auto&, const auto& uses, const auto& m) { return !UseOf(uses, m.op).holds; }},
    {"remove counter_add; count twice; slots of a shallower ring; parity of a shallower ring; slot "
     "0 released; slot 0 awaited",
     "in executions of all lengths slots and phases stay as they should be", OthersOrderIt},
    {"count from one", "any of the slots for what threads compute may be the first",
     [](const auto& fn, const auto& uses, const auto& m) {
       return OnlyPlacesOperands(fn, fn.ops[m.op].results[0]) && OthersOrderIt(fn, uses, m);
     }},
    // (ptxas puts one there itself and says so, C7519.)
    {"remove mma_fence", "the product before it, under way, is the last to touch its accumulator",
     [](const auto& fn, const auto&, const auto& m) {
       const Op& fence = fn.ops[m.op];
       const Op* before = fence.operands.size() == 1 ? fn.def(fence.operands[0]) : nullptr;
       return before && before->kind == OpKind::kMma && before->block == fence.block;
     }},
    {"remove mma_wait",
     "the product goes into the accumulator of the next, and groups end in order",
     [](const auto& fn, const auto& uses, const auto& m) {
       if (fn.ops[m.op].results.empty()) return OthersOrderIt(fn, uses, m);
       std::set<ValueId> seen;
       return OnlyAccumulated(fn, fn.ops[m.op].results[0], &seen);
     }},
    {"remove mma_commit", "the next wait ends the product after it, too, whose group it joins",
     [](const auto& fn, const auto&, const auto& m) {
       bool after = false;
       int64_t commits = 0;
       for (OpId id : fn.blocks[fn.ops[m.op].block].ops) {
         const Op& op = fn.ops[id];
         if (after && op.kind == OpKind::kMmaCommit) ++commits;
         if (after && op.kind == OpKind::kMmaWait) return commits > op.i("pending");
         after = after || id == m.op;
       }
       return false;
     }},
    {"remove cta_sync", "no two accesses are ordered by this barrier alone",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
    {"remove fence_async", "no ordinary and asynchronous access are ordered by this fence alone",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
};

}  // namespace

MutantVerdict Judge(const Function& fn, const Uses& uses, const Mutant& m, const Target& target) {
  Function mutant = fn;
  m.apply(mutant);
  DiagSink said;
  const Result<WarpCheckStats> accepted = CheckWarps(mutant, WarpCheckOptions(target), said);
  if (!accepted.ok()) return {MutantVerdict::Kind::kRejected, said.all()[0].def->name};
  // The proof rests on forms that the verifier of the IR holds, which runs in front of it.
  if (!Verify(mutant, said).ok()) return {MutantVerdict::Kind::kRejected, said.all()[0].def->name};
  WarpCheckOptions together(target);
  together.apart = false;
  const WarpVerdict whole = ProveWarps(mutant, together);
  if (whole.proof == WarpProof::kRefuted)
    return {MutantVerdict::Kind::kSurvives,
            fmt::format("{}: accepted with slots apart, refuted without: {}", m.kind,
                        whole.finding->message)};
  if (BranchNotTaken(fn, uses, m, accepted->uses))
    return {MutantVerdict::Kind::kHarmless, kHarmless[0].reason};
  for (const Harmless& h : kHarmless)
    if ((h.kinds[0] == '*' ||
         fmt::format("; {}; ", h.kinds).find(fmt::format("; {}; ", m.kind)) != std::string::npos) &&
        h.holds(fn, uses, m))
      return {MutantVerdict::Kind::kHarmless, h.reason};
  const OpId role = RoleOf(fn, m.op);
  const Executions& seen = Executed(fn, m);
  // Of a program that only what its roles agree on proves, more is said to be needed than is.
  if (whole.proof == WarpProof::kProved && seen.fault.empty() && seen.runs > 0 &&
      ProveWarps(fn, together).proof == WarpProof::kGivenUp)
    return {MutantVerdict::Kind::kHarmless,
            "what relates iterations, which the program's own proof forgets, rules it out"};
  return {MutantVerdict::Kind::kSurvives,
          fmt::format("{}, role {}: {}\n{} executions reach it, up to {} times: {}", m.kind,
                      role.valid() ? fn.ops[role].s("name") : "-", PrintOp(fn, m.op), seen.runs,
                      seen.most, seen.fault.empty() ? "no fault" : seen.fault)};
}

}  // namespace tilec::ir
