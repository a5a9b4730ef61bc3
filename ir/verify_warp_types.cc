// The verifier's rules for the rows of warp_ops.def: layouts, shared memory, barriers, TMA,
// products.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/layout_scratch.h"
#include "ir/matrix_unit.h"
#include "ir/row_run.h"
#include "ir/verify_internal.h"
#include "ir/verify_layouts.h"

namespace tilec::ir::verify_internal {

bool Verifier::CheckSlot(const Op& op, size_t index) {
  if (index >= op.operands.size()) return true;
  return IsScalar(op, index, DType::kI32) ||
         Fail(kVerifyType, op, fmt::format("slot is {}, not i32", Show(Operand(op, index))));
}

bool Verifier::CheckScratch(const Op& op, int64_t needed) {
  const int64_t scratch = op.i("scratch");
  if (scratch < -1 || (scratch >= 0 && scratch % 16 != 0))
    return Fail(kVerifyMemory, op,
                fmt::format("scratch at byte {}; a multiple of 16, or -1", scratch));
  if (scratch < 0 && needed > 0)
    return Fail(kVerifyMemory, op, fmt::format("no scratch, where {} bytes are needed", needed));
  if (scratch >= 0 && scratch + needed > fn_.launch.smem_bytes)
    return Fail(kVerifyMemory, op,
                fmt::format("scratch of {} bytes at {} ends beyond the {} bytes of shared memory",
                            needed, scratch, fn_.launch.smem_bytes));
  return true;
}

bool Verifier::CheckVector(const Op& op) {
  const int64_t vector = op.i("vector");
  const Type& t = Operand(op, 0);
  if (vector < 1 || vector * ByteSize(t.dtype) > 16 || (vector & (vector - 1)) != 0)
    return Fail(kVerifyForm, op,
                fmt::format("vector = {} of {}; accesses have at most 16 bytes", vector,
                            Spelling(t.dtype)));
  const int64_t shifted = op.i("shifted", 0);
  if (shifted == 2) {  // ir/lower/slides.h
    const std::optional<RowRun> run = RowRunOf(fn_, op);
    const bool load = op.kind == OpKind::kGLoad;
    const Param* p = fn_.param(op.operands[0]);
    if (!run || run->row_dim >= 0 || op.attr("scratch") || run->columns % 8 != 0 ||
        p->facts.base_align_bytes % 16 != 0 || (load && p->direction != Direction::kIn) ||
        (!load && fn_.type(op.operands[0]).rank() == 1))
      return Fail(kVerifyForm, op,
                  "tiles that slide are pieces of one row, of 8 elements or a multiple, of tensors "
                  "that begin at a multiple of 16 bytes: loads of what is only read, stores of "
                  "rows");
    return true;
  }
  if (shifted != 0) {
    const std::optional<RowRun> run = RowRunOf(fn_, op);
    const bool load = op.kind == OpKind::kGLoad;
    const Param* p = fn_.param(op.operands[0]);
    const bool whole = run && (load || run->columns * ByteSize(t.dtype) % 16 == 0);
    if (!whole || run->row_dim >= 0 || (load && p->direction != Direction::kIn) ||
        load == (op.attr("scratch") != nullptr))
      return Fail(kVerifyForm, op,
                  "shifted vectors are of one row: loads of what is only read, and stores of whole "
                  "16 bytes through scratch");
  }
  if (!op.attr("scratch")) return true;
  if (op.i("scratch") < 0 || !RowRunOf(fn_, op))
    return Fail(kVerifyForm, op, "what goes through scratch is no run of whole rows");
  return CheckScratch(op, ScratchBytesOf(fn_, op));
}

bool Verifier::CheckRole(const Op& op, const Scope& scope) {
  if (scope.depth > 0) return Fail(kVerifyStructure, op, "it stands inside another op");
  const int64_t first = op.i("first_warp");
  const int64_t warps = op.i("warps");
  const int64_t regs = op.i("regs");
  // Whole warpgroups share registers and, in tensor memory, lanes: what has more than one warp.
  if (first < 0 || (first % 4 != 0 && warps > 1) || warps < 1 || first > 32 || warps > 32 ||
      first + warps > fn_.launch.warps)
    return Fail(kVerifyForm, op,
                fmt::format("warps [{}, {}) of {}; roles of several warps start at a multiple of 4",
                            first, first + warps, fn_.launch.warps));
  if (!CheckOfCluster(op, "leader", 1)) return false;
  if (regs != 0 && (regs < 24 || regs > 256 || regs % 8 != 0))
    return Fail(kVerifyForm, op, fmt::format("regs = {}; 0 or a multiple of 8 in 24 … 256", regs));
  for (const auto& [begin, end] : role_warps_)
    if (first < end && begin < first + warps)
      return Fail(kVerifyStructure, op,
                  fmt::format("shares warps with the role of warps [{}, {})", begin, end));
  role_warps_.emplace_back(first, first + warps);
  return true;
}

bool Verifier::CheckConvert(const Op& op) {
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  if (!in.is_tile() || !out.is_tile() || in.shape.empty() || in.dtype != out.dtype ||
      in.shape != out.shape)
    return Fail(kVerifyType, op, fmt::format("{} becomes {}", Show(in), Show(out)));
  const Layout& from = fn_.layouts[in.layout];
  const Layout& to = fn_.layouts[out.layout];
  const bool nearby = RegisterMap(from, to, in.shape) || ExchangedInQuads(in, from, to);
  if (op.i("scratch") < 0 && !nearby)
    return Fail(kVerifyLayout, op, "without scratch, but elements change threads");
  return CheckScratch(op, op.i("scratch") < 0 ? 0 : ConvertScratchBytes(in, from, to));
}

bool Verifier::CheckWarpReduce(const Op& op, bool arg) {
  if (arg ? !CheckArgReduceShape(op)
          : !(CheckReduceShape(op) && CheckReduceKind(op, Operand(op, 0).dtype) && CheckGuard(op)))
    return false;
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  if (!arg && in.dtype != out.dtype)
    return Fail(kVerifyType, op, fmt::format("{} becomes {}", Show(in), Show(out)));
  const int axis = static_cast<int>(op.i("axis"));
  const Layout& from = fn_.layouts[in.layout];
  if (!out.shape.empty() && !SameMapping(SliceLayout(from, axis), fn_.layouts[out.layout]))
    return Fail(kVerifyLayout, op,
                fmt::format("the result's layout is {}, not the slice {}",
                            ToText(fn_.layouts[out.layout]), ToText(SliceLayout(from, axis))));
  return CheckScratch(op, ReduceScratchBytes(in, from, axis, arg));
}

bool Verifier::CheckWarpScan(const Op& op) {
  if (!CheckScan(op)) return false;
  const Type& in = Operand(op, 0);
  const auto plan = PlanScan(fn_.layouts[in.layout], static_cast<int>(op.i("axis")));
  if (!plan) return Fail(kVerifyLayout, op, "digits along the axis overlap");
  return CheckScratch(op, ScanScratchBytes(in, *plan));
}

bool Verifier::CheckTiedTiles(const Op& op, size_t count) {
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (!Operand(op, i).is_tile() || Operand(op, i).shape.empty())
      return Fail(kVerifyType, op,
                  fmt::format("operand {} is {}, not a tile", i, Show(Operand(op, i))));
  if (count > op.operands.size() || op.results.size() != count)
    return Fail(kVerifyForm, op,
                fmt::format("{} operands, {} results", op.operands.size(), op.results.size()));
  for (size_t i = 0; i < count; ++i)
    if (Operand(op, i) != Out(op, i))
      return Fail(kVerifyType, op,
                  fmt::format("operand {} is {}, result {} {}", i, Show(Operand(op, i)), i,
                              Show(Out(op, i))));
  return true;
}

bool Verifier::CheckSimtDot(const Op& op) {
  const Type& acc = Operand(op, 0);
  if (!acc.is_tile() || acc.rank() != 2 || Out(op) != acc)
    return Fail(kVerifyType, op,
                fmt::format("the accumulator is {}, the result {}", Show(acc), Show(Out(op))));
  const int64_t k = op.i("k");
  if (k < 1) return Fail(kVerifyForm, op, fmt::format("k = {}", k));
  for (size_t i = 1; i < 3; ++i) {
    const Type& t = Operand(op, i);
    const bool trans = op.i(i == 1 ? "trans_a" : "trans_b") != 0;
    const int64_t outer = acc.shape[i - 1];
    if (t.kind != TypeKind::kSmem || t.rank() != 2)
      return Fail(kVerifyType, op, fmt::format("operand {} is {}, not a smem matrix", i, Show(t)));
    if ((trans ? t.smem.rows : t.smem.cols) < k || (trans ? t.smem.cols : t.smem.rows) < outer)
      return Fail(kVerifyMemory, op,
                  fmt::format("operand {} is {}: too small for {} x {}", i, Show(t), outer, k));
  }
  return true;
}

bool Verifier::CheckWarpBroadcast(const Op& op) {
  if (!CheckBroadcastShape(op)) return false;
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  if (in.shape.empty()) return true;
  std::vector<bool> keep_out(out.shape.size(), false);
  const std::vector<int64_t>& axes = op.ints("axes");
  for (size_t i = 0; i < axes.size(); ++i) keep_out[axes[i]] = in.shape[i] != 1;
  return HoldsWithoutMoving(fn_.layouts[in.layout], NotOne(in.shape), fn_.layouts[out.layout],
                            keep_out, out.shape) ||
         Fail(kVerifyLayout, op,
              fmt::format("{} is not laid out as a slice of {}", Show(in), Show(out)));
}

bool Verifier::CheckWarpReshape(const Op& op) {
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  if (CutsOthers(in, out))
    return SameNumbers(fn_.layouts[in.layout], in.shape, fn_.layouts[out.layout], out.shape) ||
           Fail(kVerifyLayout, op, "elements would have to move");
  if (!CheckReshapeShape(op)) return false;
  if (in.shape.empty() || out.shape.empty()) return true;
  return HoldsWithoutMoving(fn_.layouts[in.layout], NotOne(in.shape), fn_.layouts[out.layout],
                            NotOne(out.shape), out.shape) ||
         Fail(kVerifyLayout, op, "the layouts differ in more than dims of extent 1");
}

bool Verifier::CheckWarpColumns(const Op& op) {
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  if (!in.is_tile() || in.rank() < 1 || in.dtype != out.dtype || in.rank() != out.rank() ||
      !std::equal(in.shape.begin(), in.shape.end() - 1, out.shape.begin()))
    return Fail(kVerifyType, op, fmt::format("{} becomes {}", Show(in), Show(out)));
  if (op.i("first") < 0 || op.i("first") + out.shape.back() > in.shape.back())
    return Fail(
        kVerifyForm, op,
        fmt::format("{} columns from {} of {}", out.shape.back(), op.i("first"), in.shape.back()));
  return ColumnsMap(fn_.layouts[in.layout], fn_.layouts[out.layout], op.i("first")) ||
         Fail(kVerifyLayout, op, "these columns are not whole registers of the same threads");
}

bool Verifier::CheckWarpTypes(const Op& op, const Scope& scope) {
  for (ValueId v : op.operands)  // layouts below are looked up without asking
    if (T(v).is_tile() && !T(v).shape.empty() &&
        (!T(v).layout.valid() || T(v).layout.index >= fn_.layouts.size() ||
         !Sane(fn_.layouts[T(v).layout])))
      return Fail(kVerifyLayout, op,
                  fmt::format("{} has no layout, or one of absurd size", Show(T(v))));
  for (ValueId v : op.results)
    if (T(v).layout.valid() && !Sane(fn_.layouts[T(v).layout]))
      return Fail(kVerifyLayout, op, fmt::format("{} has a layout of absurd size", Show(T(v))));
  switch (op.kind) {
    case OpKind::kRole: return CheckRole(op, scope);
    case OpKind::kProgramId:
      return Out(op) == Type::Scalar(DType::kI64) ||
             Fail(kVerifyType, op, fmt::format("the result is {}", Show(Out(op))));
    case OpKind::kClusterRank:
      return Out(op) == Type::Scalar(DType::kI32) ||
             Fail(kVerifyType, op, fmt::format("the result is {}", Show(Out(op))));
    case OpKind::kClusterSync:
      return !scope.in_role || Fail(kVerifyStructure, op, "it stands inside a role");
    case OpKind::kElect:
      if (!op.operands.empty() && Operand(op, 0) != Type::Scalar(DType::kBool))
        return Fail(kVerifyType, op, fmt::format("elect if {}", Show(Operand(op, 0))));
      if (op.attr("parts") && op.attr("scope"))
        return Fail(kVerifyForm, op, "it elects in parts of the role and in warps");
      if (!CheckParts(op, scope)) return false;
      return !scope.in_elect || Fail(kVerifyStructure, op, "an elect inside an elect");
    case OpKind::kSmemAlloc: return CheckSmemAlloc(op);
    case OpKind::kSmemStore:
    case OpKind::kSmemLoad:
    case OpKind::kSmemZero: return CheckSmemAccess(op);
    case OpKind::kConvert: return CheckConvert(op);
    case OpKind::kWarpBroadcast: return CheckWarpBroadcast(op);
    case OpKind::kWarpTranspose: {
      if (!CheckTransposeShape(op)) return false;
      const Layout want = PermuteLayout(fn_.layouts[Operand(op, 0).layout], op.ints("perm"));
      return SameMapping(want, fn_.layouts[Out(op).layout]) ||
             Fail(kVerifyLayout, op, "the result's layout is not the permuted operand's");
    }
    case OpKind::kWarpIota: return CheckIota(op);
    case OpKind::kWarpReshape: return CheckWarpReshape(op);
    case OpKind::kWarpColumns: return CheckWarpColumns(op);
    case OpKind::kWarpRearrange:
      return CheckRearrange(op) && CheckScratch(op, RearrangeScratchBytes(Operand(op, 0)));
    case OpKind::kWarpScan: return CheckWarpScan(op);
    case OpKind::kWarpReduce: return CheckWarpReduce(op, false);
    case OpKind::kWarpArgReduce: return CheckWarpReduce(op, true);
    case OpKind::kWarpClusterReduce: return CheckWarpClusterReduce(op, scope);
    case OpKind::kGLoad: return CheckAccess(op, false, false) && CheckVector(op);
    case OpKind::kGStore: return CheckAccess(op, true, false) && CheckVector(op);
    case OpKind::kGAtomic:
    case OpKind::kGAtomicScalar: return CheckWarpAtomic(op);
    case OpKind::kGLoadScalar: return CheckScalarAccess(op, false, false);
    case OpKind::kGStoreScalar: return CheckScalarAccess(op, true, false);
    case OpKind::kCounter:
      return Out(op) == Type::Counter() ||
             Fail(kVerifyType, op, fmt::format("the result is {}", Show(Out(op))));
    case OpKind::kCounterRead:
      return (Operand(op, 0) == Type::Counter() && Out(op) == Type::Scalar(DType::kI32)) ||
             Fail(kVerifyType, op, fmt::format("{} -> {}", Show(Operand(op, 0)), Show(Out(op))));
    case OpKind::kPin:
      return (Operand(op, 0) == Out(op) && Out(op).is_tile() &&
              (!Out(op).is_scalar() ||
               (IsInteger(Out(op).dtype) && ByteSize(Out(op).dtype) >= 4))) ||
             Fail(kVerifyType, op, fmt::format("{} -> {}", Show(Operand(op, 0)), Show(Out(op))));
    case OpKind::kCounterAdd:
      return Operand(op, 0) == Type::Counter() ||
             Fail(kVerifyType, op, fmt::format("operand 0 is {}", Show(Operand(op, 0))));
    case OpKind::kStamp:
      return (Operand(op, 0) == Type::Tensor(DType::kU32, 1) &&
              Operand(op, 1) == Type::Counter()) ||
             Fail(kVerifyType, op,
                  fmt::format("stamp of {}, {}", Show(Operand(op, 0)), Show(Operand(op, 1))));
    case OpKind::kMbarAlloc:
    case OpKind::kMbarInit:
    case OpKind::kMbarExpect:
    case OpKind::kMbarArrive:
    case OpKind::kMbarWait: return CheckMbar(op);
    case OpKind::kCtaSync:
      return (CheckParts(op, scope) && op.i("id") >= 0 && op.i("id") + op.i("parts", 1) <= 16) ||
             Fail(kVerifyForm, op,
                  fmt::format("barrier {} of 16", op.i("id") + op.i("parts", 1) - 1));
    case OpKind::kTurn:
      return ((op.s("at") == "start" || op.s("at") == "begin" || op.s("at") == "end") &&
              op.i("id") >= 0 && op.i("id") < 16) ||
             Fail(kVerifyForm, op, fmt::format("`{}` at barrier {}", op.s("at"), op.i("id")));
    case OpKind::kFenceMbarInit:
    case OpKind::kFenceAsync:
    case OpKind::kCodeFence:
    case OpKind::kTmaCommit:
    case OpKind::kMmaCommit: return true;
    case OpKind::kTmaLoad:
    case OpKind::kTmaStore: return CheckTma(op, scope);
    case OpKind::kCpLoad: return CheckCpLoad(op, scope);
    case OpKind::kCpArrive: return CheckMbar(op);
    case OpKind::kTmaWait:
      return (op.i("pending") >= 0 && op.i("read") >= 0 && op.i("read") <= 1) ||
             Fail(kVerifyForm, op,
                  fmt::format("pending = {}, read = {}", op.i("pending"), op.i("read")));
    case OpKind::kTmemAlloc:
    case OpKind::kTmemFree: return CheckTmemAlloc(op);
    case OpKind::kTcMma: return CheckTcMma(op);
    case OpKind::kTcCommit: return CheckMbar(op);
    case OpKind::kTcFence:
      return op.i("after") == 0 || op.i("after") == 1 ||
             Fail(kVerifyForm, op, fmt::format("after = {}", op.i("after")));
    case OpKind::kTmemLoad:
    case OpKind::kTmemStore: return CheckTensorAccess(op, scope);
    case OpKind::kTmemScales: return CheckTmemScales(op, scope);
    case OpKind::kMmaFence: return CheckTiedTiles(op, op.operands.size());
    case OpKind::kMma: return CheckMma(op, scope);
    case OpKind::kMmaWait:
      if (op.i("pending") < 0 || op.i("pending") > 7)
        return Fail(kVerifyForm, op, fmt::format("pending = {}", op.i("pending")));
      return CheckTiedTiles(op, op.results.size());
    case OpKind::kSimtDot: return CheckSimtDot(op);
#define OP(Name, ...) case OpKind::k##Name:
#include "ir/ops.def"
#undef OP
      break;  // CheckTypes handles them
  }
  UNREACHABLE("CheckWarpTypes: no rule for a row of warp_ops.def");
}

}  // namespace tilec::ir::verify_internal
