// The changes that are no mistake, and why.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/text.h"
#include "support/diag.h"
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

// The arrive in an elected thread's branch; nullptr: there is none.
const Op* ArriveIn(const Function& fn, const Op& elect) {
  if (elect.kind != OpKind::kElect) return nullptr;
  for (OpId inner : fn.blocks[elect.regions[0]].ops)
    if (fn.ops[inner].kind == OpKind::kMbarArrive) return &fn.ops[inner];
  return nullptr;
}

// The loader refills the slots of a ring in the order in which they were filled. So what it waits
// for before it comes to the slot of `release` includes the release of the slot before, if that
// stands between the products' wait and `release`: the slot of `release` is refilled after the
// wait, wherever it is released itself.
bool AnotherSlotIsReleasedBetween(const Function& fn, OpId release) {
  const Op* mine = ArriveIn(fn, fn.ops[release]);
  if (mine == nullptr || mine->operands.size() < 2) return false;
  std::set<OpId> loaders;
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kMbarWait && op.operands[0] == mine->operands[0])
      loaders.insert(RoleOf(fn, fn.blocks[op.block].parent));
  if (loaders.size() != 1) return false;
  std::map<ValueId, int> filled;  // by slot: the how-manieth wait of the block
  std::set<ValueId> between;
  for (OpId id : fn.blocks[fn.ops[release].block].ops) {
    const Op& op = fn.ops[id];
    if (id == release) break;
    if (op.kind == OpKind::kMbarWait && op.operands.size() > 2)
      filled.try_emplace(op.operands[2], static_cast<int>(filled.size()));
    if (op.kind == OpKind::kMmaWait) between.clear();
    const Op* other = ArriveIn(fn, op);
    if (other && other->operands.size() > 1 && other->operands[0] == mine->operands[0])
      between.insert(other->operands[1]);
  }
  const auto at = filled.find(mine->operands[1]);
  return at != filled.end() && std::any_of(between.begin(), between.end(), [&](ValueId slot) {
           const auto before = filled.find(slot);
           return before != filled.end() && before->second < at->second;
         });
}

// Mutants that are no mistake: why, and how that is seen.
struct Harmless {
  const char* kinds;  // separated by "; "
  const char* reason;
  bool (*holds)(const Function& fn, const Uses& uses, const Mutant& mutant);
};

constexpr Harmless kHarmless[] = {
    {"*", "no execution takes the branch: its conditions exclude each other",
     [](const auto&, const auto& uses, const auto& m) { return !UseOf(uses, m.op).reached; }},
    {"remove mbar_wait; slot 0 awaited",
     "an order token: it keeps products of two roles in turn, and the data have rings of their own",
     [](const auto& fn, const auto&, const auto& m) {
       const OpId role = RoleOf(fn, m.op);
       if (!role.valid() || fn.ops[role].s("name").rfind("compute", 0) != 0) return false;
       for (const Op& op : fn.ops)
         if (op.kind == OpKind::kMbarExpect && op.operands[0] == fn.ops[m.op].operands[0])
           return false;
       return true;
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
    {"released before mma_wait; loaded before mbar_wait",
     "a ring in step with this one, refilled by the same loop, is released after the wait",
     [](const auto& fn, const auto&, const auto& m) {
       std::set<ValueId> refilled, released;
       ValueId mine;
       for (OpId inner : fn.blocks[fn.ops[m.op].regions[0]].ops)
         if (fn.ops[inner].kind == OpKind::kMbarArrive) mine = fn.ops[inner].operands[0];
       for (const Block& block : fn.blocks) {
         std::set<ValueId> awaited;
         bool after = false, here = false;  // an mma_wait; the mutated op, or a wait for its ring
         for (OpId id : block.ops) {
           const Op& op = fn.ops[id];
           if (op.kind == OpKind::kMbarWait) {
             here = here || op.operands[0] == mine;
             if (op.operands[0] != mine) awaited.insert(op.operands[0]);
           }
           after = after || op.kind == OpKind::kMmaWait;
           here = here || (!mine.valid() && id == m.op);
           if (op.kind == OpKind::kElect && after && id != m.op)
             for (OpId inner : fn.blocks[op.regions[0]].ops)
               if (fn.ops[inner].kind == OpKind::kMbarArrive)
                 released.insert(fn.ops[inner].operands[0]);
         }
         if (here) refilled.insert(awaited.begin(), awaited.end());
       }
       for (ValueId v : refilled)
         if (released.count(v)) return true;
       return false;
     }},
    {"released before mma_wait",
     "the slot before it is released after the wait, and slots are refilled in order",
     [](const auto& fn, const auto&, const auto& m) {
       return AnotherSlotIsReleasedBetween(fn, m.op);
     }},
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
    {"remove counter_add; count twice", "the counter is not read afterwards",
     [](const auto& fn, const auto& uses, const auto& m) { return !Needed(fn, uses, m.op); }},
    {"operand let go", "a later wait, which ends the product, keeps it",
     [](const auto&, const auto& uses, const auto& m) { return !UseOf(uses, m.op).holds; }},
    {"remove mma_wait",
     "the product goes into the accumulator of the next, and groups end in order",
     [](const auto& fn, const auto&, const auto& m) {
       for (const Op& user : fn.ops)
         for (size_t i = 0; i < user.operands.size(); ++i)
           if (user.operands[i] == fn.ops[m.op].results[0] &&
               (user.kind != OpKind::kMmaFence || i != 0))
             return false;
       return true;
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

MutantVerdict Judge(const Function& fn, const Uses& uses, const Mutant& m) {
  Function mutant = fn;
  m.apply(mutant);
  DiagSink said;
  if (!CheckWarps(mutant, {}, said).ok())
    return {MutantVerdict::Kind::kRejected, said.all()[0].def->name};
  for (const Harmless& h : kHarmless)
    if ((h.kinds[0] == '*' ||
         fmt::format("; {}; ", h.kinds).find(fmt::format("; {}; ", m.kind)) != std::string::npos) &&
        h.holds(fn, uses, m))
      return {MutantVerdict::Kind::kHarmless, h.reason};
  const OpId role = RoleOf(fn, m.op);
  return {MutantVerdict::Kind::kSurvives,
          fmt::format("{}, role {}: {}", m.kind, role.valid() ? fn.ops[role].s("name") : "-",
                      PrintOp(fn, m.op))};
}

}  // namespace tilec::ir
