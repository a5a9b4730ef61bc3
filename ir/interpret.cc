// One run of the interpreter from beginning to end, and what it has to know before it runs.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/interpret.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/diagnostics.h"
#include "ir/interpret_driver.h"
#include "ir/interpret_sample.h"
#include "ir/passes/rescaled_sums.h"
#include "ir/queries.h"
#include "ir/verify.h"

namespace tilec::ir::interpret_internal {

Driver::Driver(const Function& fn, InterpretInputs& inputs, const InterpretOptions& options,
               uint64_t perturb, DiagSink& diags)
    : kernel_{.fn = fn, .options = options, .perturb = perturb},
      fn_(fn),
      inputs_(inputs),
      diags_(diags) {
  kernel_.in_parts = FindLoopsInParts(fn, options.parts);
  if (options.parts <= 1) return;
  for (OpId id : OpsInOrder(fn)) {
    if (fn.ops[id].kind != OpKind::kFor) continue;
    if (const auto found = FindRescaledSums(fn, id))
      for (OpId cast : found->roundings) kernel_.rounded_apart.insert(fn.ops[cast].results[0]);
  }
}

std::map<int32_t, Meetings> Driver::Met() {
  std::map<int32_t, Meetings> met;
  for (auto& [id, t] : kernel_.tensors) met[id] = std::move(t.meetings);
  return met;
}

void Driver::MarkUses() {
  for (const Op& op : fn_.ops) {
    if (op.operands.empty()) continue;
    auto it = kernel_.tensors.find(op.operands[0].index);
    if (it == kernel_.tensors.end()) continue;
    auto& [id, t] = *it;
    if (op.kind == OpKind::kLoad) t.read = true;
    if (op.kind == OpKind::kStore || op.kind == OpKind::kAtomic) t.written = true;
    if (op.kind == OpKind::kAtomic) {
      one_thread_ = true;  // the order of floating-point adds
      if (op.s("kind") == "add" && t.is_float())
        t.sums.resize(static_cast<size_t>(t.value->elements()));
      if (Fetches(op)) {
        static const Meetings kNone;
        t.meetings.turns.resize(static_cast<size_t>(t.value->elements()));
        t.known = known_ ? &known_->at(id) : &kNone;
        may_sample_ = false;
      }
    }
  }
  for (auto& [id, t] : kernel_.tensors) {
    one_thread_ |= t.read && t.written;
    may_sample_ &= !(t.read && t.written);
    Prepare(t, kernel_.perturb == 0);
  }
}

Result<InterpretReport> Driver::Run() {
  if (fn_.level != Level::kTile) return diags_.Report(kNotInterpretable, {}, fn_.name);
  TRY_VOID(Verify(fn_, diags_));
  TRY_VOID(BindDims());
  TRY_VOID(BindTensors());
  TRY_VOID(CheckSizes());
  TRY_VOID(CheckFacts());
  Worker top(kernel_, std::vector<Tile>(static_cast<size_t>(fn_.values.size())));
  TRY_VOID(BindScalars(top));
  MarkUses();
  top.StartTop();
  bool ok = true;
  for (OpId id : fn_.blocks[fn_.body].ops) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kParallel) {
      TRY_VOID(RunGrid(op, top));
    } else if (!(ok = top.RunTopOp(op))) {
      break;
    }
  }
  if (!ok) {
    top.diags.MoveTo(diags_);
    return DiagSink::Propagate();
  }
  report_.undecided_stores += top.undecided_stores;
  std::vector<std::string> first;
  for (PrintLine& p : top.prints) first.push_back(std::move(p.text));
  report_.prints.insert(report_.prints.begin(), first.begin(), first.end());
  for (auto& [id, t] : kernel_.tensors) Settle(t, sampled_);
  return std::move(report_);
}

namespace {

// Where atomics meet that give back what they find: known once all instances have run. Tensors that
// are only read are lent to that run and come back.
std::map<int32_t, Meetings> MeetingsOf(const Function& fn, InterpretInputs& inputs,
                                       const InterpretOptions& options) {
  InterpretInputs first{{}, inputs.scalars, inputs.dims};
  std::set<std::string> written;
  for (const Param& p : fn.params)
    if (p.kind == ParamKind::kTensor && p.direction != Direction::kIn) written.insert(p.name);
  for (auto& [name, tensor] : inputs.tensors)
    first.tensors[name] = written.count(name) ? tensor : std::move(tensor);
  DiagSink quiet;
  Driver driver(fn, first, options, 0, quiet);
  const bool ok = driver.Run().ok();
  for (auto& [name, tensor] : inputs.tensors)
    if (!written.count(name)) tensor = std::move(first.tensors[name]);
  return ok ? driver.Met() : std::map<int32_t, Meetings>();
}

}  // namespace

Result<InterpretReport> RunOnce(const Function& fn, InterpretInputs& inputs,
                                const InterpretOptions& options, uint64_t perturb,
                                DiagSink& diags) {
  Driver driver(fn, inputs, options, perturb, diags);
  std::map<int32_t, Meetings> met;
  if (perturb == 0 && Fetches(fn)) met = MeetingsOf(fn, inputs, options);
  if (!met.empty()) driver.Know(&met);
  return driver.Run();
}

}  // namespace tilec::ir::interpret_internal
