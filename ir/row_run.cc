// SPDX-License-Identifier: Apache-2.0
#include "ir/row_run.h"

#include <algorithm>

#include "ir/counters.h"
#include "ir/isa.h"
#include "ir/layout_scratch.h"
#include "ir/queries.h"
#include "support/expr.h"

namespace tilec::ir {

namespace {
constexpr int64_t kRunAlign = 16;  // bytes of the widest access
}

std::optional<RowRun> RowRunOf(const Function& fn, const Op& op) {
  const bool store = op.kind == OpKind::kStore || op.kind == OpKind::kGStore;
  if (!store && op.kind != OpKind::kLoad && op.kind != OpKind::kGLoad) return std::nullopt;
  const Param* p = fn.param(op.operands[0]);
  if (!p || !p->facts.last_contiguous) return std::nullopt;
  if (p->facts.base_align_bytes % kRunAlign != 0 && !op.i("shifted", 0)) return std::nullopt;
  const DType dtype = fn.type(op.operands[0]).dtype;
  if (dtype == DType::kBool || ByteSize(dtype) > 4) return std::nullopt;
  const std::string& modes = op.s("modes");
  const std::vector<int64_t>& sizes = op.ints("sizes");
  if (modes.empty() || modes.back() != 'r') return std::nullopt;
  RowRun run;
  size_t operand = store ? 2 : 1;
  for (size_t d = 0; d + 1 < modes.size(); ++d) {
    if (modes[d] == 'g' || modes[d] == 'f') return std::nullopt;
    if (modes[d] == 'r' && sizes[d] != 1) {
      if (d + 2 != modes.size()) return std::nullopt;
      run.row_dim = static_cast<int>(d);
      run.rows = sizes[d];
    }
    operand += OperandsOf(modes[d], store);
  }
  run.columns = sizes.back();
  if (run.row_dim < 0) return run;
  if (!p->dims.back().is_const() || p->dims.back().value < 1) return std::nullopt;
  run.columns = p->dims.back().value;
  const auto reaches = [&](size_t at, int64_t from, int64_t to) {
    const int64_t* v = IntConstantOf(fn, op.operands[at]);
    return v && *v >= from && *v <= to;
  };
  const bool whole = sizes.back() >= run.columns && reaches(operand, 0, 0) &&
                     (!store || reaches(operand + 1, run.columns, INT64_MAX));
  return whole ? std::optional(run) : std::nullopt;
}

int64_t RowRunBytes(const RowRun& run, DType dtype) {
  return RoundUp(run.rows * run.columns * ByteSize(dtype) + kRunAlign - 1, kRunAlign);
}

bool MeetsInScratch(const Op& op) {
  const bool counts = op.kind == OpKind::kGAtomic && op.results.empty();
  return op.attr("scratch") != nullptr && op.i("scratch") >= 0 && !counts;
}

int64_t CountersOf(const Function& fn, const Op& atomic) {
  constexpr int64_t kMost = 4096;
  const Param* tensor = fn.param(atomic.operands[0]);
  if (!tensor || tensor->dims.empty()) return 0;
  const Expr last = Simplify(tensor->dims.back(), fn.statics);
  return last.is_const() && last.value <= kMost ? std::max<int64_t>(last.value, 0) : 0;
}

OpId CountsIn(const Function& fn, OpId atomic) {
  const Op& op = fn.ops[atomic];
  if (op.kind != OpKind::kGAtomic || !op.results.empty() || op.s("kind") != "add") return {};
  const Type& value = fn.type(op.operands[1]);
  const std::string& modes = op.s("modes");
  if (!IsInteger(value.dtype) || ByteSize(value.dtype) != 4 || modes.back() != 'g' ||
      std::count(modes.begin(), modes.end(), 's') + 1 != std::ssize(modes))
    return {};
  const int64_t counters = CountersOf(fn, op);
  if (counters == 0 || value.elements() < counters) return {};
  OpId loop;
  for (OpId around = LoopAround(fn, atomic); around.valid(); around = LoopAround(fn, around))
    loop = around;
  if (!loop.valid() || fn.ops[loop].kind != OpKind::kFor) return {};
  for (size_t d = 0; d + 1 < modes.size(); ++d) {
    const Value& at = fn.values[op.operands[2 + d]];
    const BlockId block = at.def.valid() ? fn.ops[at.def].block : at.block;
    const OpId owner = block.valid() ? fn.blocks[block].parent : OpId();
    if (owner.valid() && (owner == loop || IsWithin(fn, owner, loop))) return {};
  }
  int roles = 0;
  for (const OpId id : OpsInOrder(fn)) {
    const Op& other = fn.ops[id];
    roles += other.kind == OpKind::kRole;
    const bool touches = !other.operands.empty() && other.operands[0] == op.operands[0];
    const bool adds =  // in whatever order
        other.kind == OpKind::kGAtomic && other.results.empty() && other.s("kind") == "add";
    if (other.kind == OpKind::kMma || (touches && !adds)) return {};
  }
  return roles == 1 ? loop : OpId();
}

int64_t ScratchBytesOf(const Function& fn, const Op& op) {
  switch (op.kind) {
    case OpKind::kGLoad:
    case OpKind::kGStore: {
      const std::optional<RowRun> run = RowRunOf(fn, op);
      return run ? RowRunBytes(*run, fn.type(op.operands[0]).dtype) : 0;
    }
    case OpKind::kConvert:
      return ConvertScratchBytes(fn.type(op.operands[0]), fn.layout(op.operands[0]),
                                 fn.layout(op.results[0]));
    case OpKind::kGAtomic:
      if (const int64_t counters = op.results.empty() ? CountersOf(fn, op) : 0; counters > 0)
        return (counters + 1) * CounterSets(counters) * ByteSize(fn.type(op.operands[1]).dtype);
      if (op.results.empty()) return 0;
      return FetchScratchBytes(fn.type(op.operands[1]), &fn.layout(op.operands[1]));
    case OpKind::kGAtomicScalar: return FetchScratchBytes(fn.type(op.operands[1]), nullptr);
    case OpKind::kWarpRearrange: return RearrangeScratchBytes(fn.type(op.operands[0]));
    case OpKind::kWarpScan:
      return ScanScratchBytes(fn.type(op.operands[0]),
                              *PlanScan(fn.layout(op.operands[0]), static_cast<int>(op.i("axis"))));
    default:
      return ReduceScratchBytes(fn.type(op.operands[0]), fn.layout(op.operands[0]),
                                static_cast<int>(op.i("axis")), op.kind == OpKind::kWarpArgReduce);
  }
}

}  // namespace tilec::ir
