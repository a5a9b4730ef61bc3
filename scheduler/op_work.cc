// SPDX-License-Identifier: Apache-2.0
#include "scheduler/op_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/lower/operands.h"
#include "ir/queries.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

using ir::Op;
using ir::OpKind;
using ir::ValueId;

constexpr int64_t kTensorDepth = 32;  // bytes of K of a product's instruction
constexpr int64_t kLeastRows = 64;    // … and its rows, where the unit does not say

// Does a product read its left operand from tensor memory? So it does where threads compute it.
bool LeftInTensorMemory(const ir::Target& target, const ir::Function& fn, const Op& dot) {
  if (!ir::InTensorMemory(target.matrix_unit.kind) ||
      ir::Info(fn.type(dot.operands[0]).dtype).bits != target.unit().left_tensor_bits)
    return false;
  const Op* def = fn.def(dot.operands[0]);
  while (def && (def->kind == OpKind::kTranspose || def->kind == OpKind::kReshape))
    def = fn.def(def->operands[0]);
  return def && def->kind != OpKind::kLoad;
}

// Columns that a product of `rows` rows takes the time of. A unit that adds up in tensor memory
// reads a left operand and a right one of shared memory at 128 bytes a cycle, and multiplies two
// columns of 32 bytes a cycle: max(N / 2, (rows + N) / 4) cycles. Measured by SemiAnalysis on a
// B200 (microbench-blackwell): 48, 56 and 64 cycles for N = 64, 96 and 128.
double ColumnsOf(const ir::Target& target, const ir::Function& fn, const Op& dot, int64_t rows) {
  const auto columns = static_cast<double>(fn.type(dot.results[0]).shape[1]);
  if (!ir::InTensorMemory(target.matrix_unit.kind) || LeftInTensorMemory(target, fn, dot))
    return columns;
  return std::max(columns, (static_cast<double>(rows) + columns) / 2);
}

// Elements that an instruction takes: threads add and multiply 16-bit floats two at a time.
double OpsAtOnce(const ir::Target& target, const ir::Function& fn, const Op& op) {
  if (op.kind != OpKind::kAdd && op.kind != OpKind::kSub && op.kind != OpKind::kMul) return 1;
  const ir::DType d = fn.type(op.results[0]).dtype;
  const bool pairs =
      d == ir::DType::kF16 || (d == ir::DType::kBF16 && target.Has("bf16_arithmetic"));
  return pairs ? 2 : 1;
}

}  // namespace

bool IsMemory(OpKind kind) {
  return kind == OpKind::kLoad || kind == OpKind::kStore || kind == OpKind::kAtomic;
}

bool IsScalar(const ir::Function& fn, const Op& op) {
  return fn.type(op.results.empty() ? op.operands[1] : op.results[0]).rank() == 0;
}

std::string CostName(const ir::Function& fn, const Op& op) {
  const std::string mnemonic = ir::Info(op.kind).mnemonic;
  if (op.kind == OpKind::kReduce)
    return mnemonic + "." + op.s("kind") + (ir::GuardOf(op).valid() ? ".guarded" : "");
  if (op.kind == OpKind::kMul && op.i("seldom", 0) != 0) return mnemonic + ".seldom";
  if (op.kind == OpKind::kDot)
    return fmt::format("{}.{}", mnemonic, ir::Info(fn.type(op.operands[0]).dtype).bits);
  // (Of a scalar, too: no copy brings one.)
  if (op.kind == OpKind::kLoad && (ir::ByThreads(fn, op) || IsScalar(fn, op)))
    return mnemonic + ".gather";
  return mnemonic;
}

ir::Work WorkOf(const ir::Target& target, const ir::Function& fn, const Op& op,
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
    // The tensor core works on whole instructions.
    const ir::Type& a = fn.type(op.operands[0]);
    const double k = static_cast<double>(a.shape[1]);
    const int64_t rows = a.shape[0] / share(op.operands[0]);
    const int64_t whole = std::max(kLeastRows, target.unit().rows);
    const double blocks = static_cast<double>(CeilDiv(rows, whole));
    const double columns = ColumnsOf(target, fn, op, whole);
    work.flops = 2 * k * columns * blocks * static_cast<double>(whole);
    work.steps = blocks * std::max(1.0, k * ir::ByteSize(a.dtype) / kTensorDepth);
    work.elements = static_cast<double>(elements(op.results[0]));
  } else if (IsMemory(op.kind)) {
    const ValueId moved = op.kind == OpKind::kLoad ? op.results[0] : op.operands[1];
    work.bytes =
        static_cast<double>(CeilDiv(elements(moved) * ir::Info(fn.type(moved).dtype).bits, 8));
  } else {
    work.elements /= OpsAtOnce(target, fn, op);
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
