// SPDX-License-Identifier: Apache-2.0
#include "scheduler/op_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/lower/operands.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

using ir::Op;
using ir::OpKind;
using ir::ValueId;

constexpr int64_t kTensorDepth = 32;  // bytes of K of a product's instruction

}  // namespace

bool IsMemory(OpKind kind) {
  return kind == OpKind::kLoad || kind == OpKind::kStore || kind == OpKind::kAtomic;
}

std::string CostName(const ir::Function& fn, const Op& op) {
  const std::string mnemonic = ir::Info(op.kind).mnemonic;
  if (op.kind == OpKind::kReduce) return mnemonic + "." + op.s("kind");
  if (op.kind == OpKind::kDot)
    return fmt::format("{}.{}", mnemonic, ir::Info(fn.type(op.operands[0]).dtype).bits);
  if (op.kind == OpKind::kLoad && ir::ByThreads(fn, op)) return mnemonic + ".gather";
  return mnemonic;
}

ir::Work WorkOf(const ir::Function& fn, const Op& op,
                const std::function<int64_t(ValueId)>& share) {
  auto elements = [&](ValueId v) { return fn.type(v).elements() / share(v); };
  ir::Work work;
  for (ValueId v : op.operands)
    if (fn.type(v).is_tile())
      work.elements = std::max(work.elements, static_cast<double>(elements(v)));
  for (ValueId v : op.results) {
    work.elements = std::max(work.elements, static_cast<double>(elements(v)));
    work.rows += static_cast<double>(elements(v));
  }
  if (op.kind == OpKind::kDot) {
    // The tensor core works on whole instructions: rows are padded to 64.
    const ir::Type& a = fn.type(op.operands[0]);
    const double k = static_cast<double>(a.shape[1]);
    const int64_t rows = a.shape[0] / share(op.operands[0]);
    const double blocks = static_cast<double>(CeilDiv(rows, kTensorRows));
    const double columns = static_cast<double>(fn.type(op.results[0]).shape[1]);
    work.flops = 2 * k * columns * blocks * kTensorRows;
    work.steps = blocks * std::max(1.0, k * ir::ByteSize(a.dtype) / kTensorDepth);
    work.elements = static_cast<double>(elements(op.results[0]));
  } else if (IsMemory(op.kind)) {
    const ValueId moved = op.kind == OpKind::kLoad ? op.results[0] : op.operands[1];
    work.bytes =
        static_cast<double>(CeilDiv(elements(moved) * ir::Info(fn.type(moved).dtype).bits, 8));
  }
  return work;
}

GraphOp CostedOp(const ir::OpCost& cost, const ir::Work& work, Span at) {
  GraphOp op;
  op.kind = cost.kind;
  op.issue = cost.issue.At(work);
  op.latency = cost.latency.At(work);
  op.warps = cost.warps;
  op.async = cost.async;
  op.variable_latency = cost.variable;
  op.at = at;
  for (const ir::TargetUse& use : cost.uses)
    if (const int64_t cycles = use.cycles.At(work); cycles > 0)
      op.uses.push_back({use.unit, cycles});
  return op;
}

}  // namespace tilec::scheduler
