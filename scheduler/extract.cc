// What of a loop becomes ops: tile ops one by one or once per slice, a branch as one, cheap
// arithmetic that all slices share by each of them; and what lives around the loop is reserved.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/arms.h"
#include "ir/loop_plan.h"
#include "ir/queries.h"
#include "scheduler/contract.h"
#include "scheduler/crossing.h"
#include "scheduler/diagnostics.h"
#include "scheduler/extractor.h"
#include "support/expr.h"

namespace tilec::scheduler {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Type;
using ir::ValueId;

namespace {

constexpr int64_t kCheap = 8;  // at most 1/8 of the largest issue time: worth doing twice

void FindLoops(const ir::Function& fn, ir::BlockId block, bool* has_loop,
               std::vector<OpId>* loops) {
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    const bool loop = IsLoop(op.kind);
    bool inside = false;
    for (ir::BlockId region : op.regions) FindLoops(fn, region, &inside, loops);
    if (op.kind == OpKind::kFor && !inside) loops->push_back(id);
    *has_loop = *has_loop || loop || inside;
  }
}

}  // namespace

Result<Extraction> Extractor::Run() {
  const std::vector<int> choices = rows_.Choices();
  if (std::find(choices.begin(), choices.end(), slices_) == choices.end())
    return diags_.Report(kLoopSlices, loop_.at, slices_);
  graph_.name = fn_.name.empty() ? "loop" : fn_.name;
  if (slices_ > 1) graph_.name += fmt::format("/{}", slices_);
  graph_.machine = LimitsOf(target_);
  ReserveLiveIns();
  for (const ir::TargetUnit& unit : target_.units)
    graph_.units.push_back({unit.name, unit.capacity, unit.fluid});
  for (size_t i = 1; i < body_.args.size(); ++i) arg_index_[body_.args[i]] = i;
  for (OpId id : body_.ops) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kYield) continue;
    if (op.kind == OpKind::kIf) {
      TRY_VOID(FindArms(id));
      continue;
    }
    if (!op.regions.empty()) return diags_.Report(kLoopShape, op.at, ir::Info(op.kind).mnemonic);
    if (op.kind == OpKind::kPrint || op.kind == OpKind::kAssert || IsFree(op.kind)) continue;
    // Who reads a scalar computes it. What is seen in memory is done once, by one.
    if (IsScalar(fn_, op) && (!IsMemory(op.kind) || ir::IsReplicated(fn_, op))) continue;
    Take(id);
  }
  FindReplicated();
  for (OpId id : order_)
    if (fn_.ops[id].kind == OpKind::kIf)
      AddArms(id);
    else
      AddOp(id);
  for (OpId id : order_) AddEdges(id);
  AddOrder();
  const bool idle = std::all_of(order_.begin(), order_.end(), [&](OpId id) {
    if (arms_.count(id) == 0) return IsScalar(fn_, fn_.ops[id]);
    return graph_.ops[instances_[id][0]].issue <= 1;
  });
  if (idle) return diags_.Report(kLoopEmpty, loop_.at, fn_.name);
  return Extraction{std::move(graph_), std::move(origins_)};
}

void Extractor::Take(OpId id) {
  costed_.insert(id);
  if (const Op& op = fn_.ops[id]; op.kind == OpKind::kDot && fn_.type(op.results[0]).rank() == 2)
    accumulators_.insert(fn_.type(op.results[0]).shape);
  order_.push_back(id);
}

// A branch is one op: where all that it decides is scalars, nothing but what they cost. Loads of
// its arms run ahead, unless the kernel writes what they read or, having no product, no ring.
Result<> Extractor::FindArms(OpId id) {
  const std::vector<OpId> inside = OpsInside(fn_, id);
  const bool cut = slices_ > 1 || std::any_of(inside.begin(), inside.end(), [&](OpId op) {
                     return fn_.ops[op].attr("slice") != nullptr;
                   });
  const bool products = std::any_of(inside.begin(), inside.end(),
                                    [&](OpId op) { return fn_.ops[op].kind == OpKind::kDot; });
  // What lies in tensor memory cannot be chosen by a branch.
  if (cut || (products && tensor_memory_))
    return diags_.Report(kLoopShape, fn_.ops[id].at, ir::Info(fn_.ops[id].kind).mnemonic);
  for (OpId op : inside)
    if (fn_.ops[op].kind == OpKind::kLoad && facts_.multiplies && RunsAhead(op) &&
        fn_.type(fn_.ops[op].results[0]).rank() > 0) {
      Take(op);
      arms_[id].push_back(op);
    }
  arms_[id];
  Take(id);
  return Done();
}

bool Extractor::RunsAhead(OpId load) const {
  return IsReadOnlyLoad(fn_, fn_.ops[load]) && Cost(fn_.ops[load]).variable;
}

// What lives around the loop is not the loop's to use.
void Extractor::ReserveLiveIns() {
  MachineLimits& machine = graph_.machine;
  for (const LiveIn& live : facts_.live_in) {
    const Type& type = fn_.type(live.value);
    const int64_t bytes = CeilDiv(type.elements() * ir::Info(type.dtype).bits, 8);
    if (live.loaded_operand)
      machine.smem_bytes = std::max<int64_t>(0, machine.smem_bytes - bytes);
    else
      machine.max_regs_per_thread = std::max<int64_t>(
          0, machine.max_regs_per_thread - Registers(Bytes(live.value), kComputeWarps));
  }
}

bool Extractor::SlicedOp(const Op& op) const {
  if (slices_ == 1) return op.attr("slice") != nullptr;
  for (ValueId v : op.results)
    if (Sliced(v)) return true;
  return op.results.empty() && Sliced(op.operands[1]);
}

// Cheap arithmetic that all slices share (a mask over keys) is done by each of them: registers of
// one role are no use to another. Not where the loop hands the value on, and not what products
// read from shared memory.
void Extractor::FindReplicated() {
  for (int s = 0; s < slices_ && slices_ > 1; ++s) all_slices_.insert(s);
  for (OpId id : costed_)
    if (slices_ == 1 && SlicedOp(fn_.ops[id]))
      all_slices_.insert(static_cast<int>(fn_.ops[id].i("slice")));
  if (all_slices_.size() < 2) return;
  std::map<OpId, std::set<OpId>> readers;
  std::set<OpId> kept;
  int64_t largest = 0;
  for (OpId id : costed_) {
    const Op& op = fn_.ops[id];
    largest = std::max(largest, Cost(op).issue.At(WorkOf(op)));
    for (size_t i = 0; i < op.operands.size(); ++i)
      for (const Source& source : SourcesOf(op.operands[i])) {
        readers[source.op].insert(id);
        if (op.kind == OpKind::kDot && i < 2) kept.insert(source.op);
      }
  }
  for (ValueId v : fn_.ops[body_.ops.back()].operands)
    for (const Source& source : SourcesOf(v)) kept.insert(source.op);
  for (size_t i = body_.ops.size(); i-- > 0;) {
    const OpId id = body_.ops[i];
    const Op& op = fn_.ops[id];
    if (costed_.count(id) == 0 || kept.count(id) > 0 || SlicedOp(op) || IsMemory(op.kind) ||
        op.kind == OpKind::kDot || readers[id].empty())
      continue;
    if (options_.role_crossing && Cost(op).issue.At(WorkOf(op)) * kCheap > largest) continue;
    const bool all = std::all_of(readers[id].begin(), readers[id].end(), [&](OpId reader) {
      return SlicedOp(fn_.ops[reader]) || replicated_.count(reader) > 0;
    });
    if (all) replicated_.insert(id);
  }
}

MachineLimits LimitsOf(const ir::Target& target) {
  MachineLimits machine;
  machine.name = target.name;
  machine.smem_bytes = target.limits.smem_bytes;
  machine.tmem_columns = target.limits.tmem_columns;
  machine.max_regs_per_thread = target.limits.max_regs_per_thread;
  machine.registers = target.limits.registers;
  machine.max_warps = target.limits.max_warps;
  machine.barrier_bytes = target.limits.barrier_bytes;
  return machine;
}

std::vector<OpId> InnermostLoops(const ir::Function& fn) {
  std::vector<OpId> loops;
  bool any = false;
  FindLoops(fn, fn.body, &any, &loops);
  return loops;
}

const char* Spelling(StepKind kind) {
  switch (kind) {
    case StepKind::kOp: return "";
    case StepKind::kSmemLoad: return "smem_load";
    case StepKind::kSmemStore: return "smem_store";
    case StepKind::kTmemLoad: return "tmem_load";
    case StepKind::kTmemStore: return "tmem_store";
  }
  return "";
}

std::vector<OpId> OpOrigin::members() const {
  std::vector<OpId> ops;
  for (const OriginStep& step : steps)
    if (step.kind == StepKind::kOp) ops.push_back(step.op);
  return ops;
}

Result<Extraction> ExtractLoop(const ir::Function& fn, OpId loop, const ir::Target& target,
                               const ExtractOptions& options, DiagSink& diags) {
  TRY(Extraction extraction, Extractor(fn, loop, target, options, diags).Run());
  ContractSmallOps(&extraction);
  if (options.role_crossing) AddRoutes(target, &extraction);
  TRY_VOID(CheckGraph(extraction.graph, diags));
  return extraction;
}

}  // namespace tilec::scheduler
