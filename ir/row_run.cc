// SPDX-License-Identifier: Apache-2.0
#include "ir/row_run.h"

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
  if (!p || !p->facts.last_contiguous || p->facts.base_align_bytes % kRunAlign != 0)
    return std::nullopt;
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

bool MeetsInScratch(const Op& op) { return op.attr("scratch") != nullptr && op.i("scratch") >= 0; }

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
