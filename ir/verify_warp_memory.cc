// The verifier's rules for warp ops that reach shared memory, barriers and scalars in memory
// (warp_ops.def).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/layout_scratch.h"
#include "ir/row_run.h"
#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {

bool Verifier::CheckSmemAlloc(const Op& op) {
  const Type& t = Out(op);
  if (t.kind != TypeKind::kSmem)
    return Fail(kVerifyType, op, fmt::format("the result is {}", Show(t)));
  const SmemLayout& s = t.smem;
  const int64_t size = ByteSize(t.dtype);
  if (t.shape.empty() || s.rows < 1 || s.panel_cols < 1 || s.cols < 1 || s.cols % s.panel_cols != 0)
    return Fail(kVerifyMemory, op, fmt::format("{}: cols are whole panels", Show(t)));
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < t.shape.size(); ++d) rows *= t.shape[d];
  if (rows > s.rows || t.shape.back() > s.cols)
    return Fail(kVerifyMemory, op, fmt::format("{}: the tile is larger than its buffer", Show(t)));
  if (s.swizzle_bytes != 0 && s.swizzle_bytes != 32 && s.swizzle_bytes != 64 &&
      s.swizzle_bytes != 128)
    return Fail(kVerifyMemory, op, fmt::format("swizzle of {} bytes", s.swizzle_bytes));
  if (s.swizzle_bytes != 0 && (s.panel_cols * size != s.swizzle_bytes || s.rows % 8 != 0))
    return Fail(
        kVerifyMemory, op,
        fmt::format("{}: a swizzled panel is as wide as its swizzle and a multiple of 8 rows",
                    Show(t)));
  const int64_t offset = op.i("offset");
  const int64_t bytes = t.depth * SmemBytes(s, t.dtype);
  if (offset < 0 || offset % 1024 != 0)
    return Fail(kVerifyMemory, op, fmt::format("byte {} is not a multiple of 1024", offset));
  if (t.depth > 1 && s.swizzle_bytes != 0 && SmemBytes(s, t.dtype) % 1024 != 0)
    return Fail(kVerifyMemory, op,
                fmt::format("{}: copies of {} bytes lose the 1024-byte alignment", Show(t),
                            SmemBytes(s, t.dtype)));
  if (t.depth < 1 || offset + bytes > fn_.launch.smem_bytes)
    return Fail(kVerifyMemory, op,
                fmt::format("{} bytes at {} end beyond the {} bytes of shared memory", bytes,
                            offset, fn_.launch.smem_bytes));
  return true;
}

// smem_store: tile, smem[, slot]; smem_load: smem[, slot] -> tile; smem_zero: smem[, slot].
bool Verifier::CheckSmemAccess(const Op& op) {
  const size_t at = op.kind == OpKind::kSmemStore ? 1 : 0;
  const Type& smem = Operand(op, at);
  if (smem.kind != TypeKind::kSmem)
    return Fail(kVerifyType, op, fmt::format("operand {} is {}, not smem", at, Show(smem)));
  if (!CheckSlot(op, at + 1)) return false;
  if (op.kind == OpKind::kSmemZero) return true;
  const Type& tile = op.kind == OpKind::kSmemStore ? Operand(op, 0) : Out(op);
  const int64_t transposed = op.i("transposed");
  if (transposed != 0 && transposed != 1)
    return Fail(kVerifyForm, op, fmt::format("transposed = {}", transposed));
  std::vector<int64_t> shape = tile.shape;
  if (transposed && shape.size() == 2) std::swap(shape[0], shape[1]);
  if (!tile.is_tile() || tile.shape.empty() || tile.dtype != smem.dtype || shape != smem.shape ||
      (transposed && tile.rank() != 2))
    return Fail(kVerifyType, op,
                fmt::format("the tile is {}, the buffer {}", Show(tile), Show(smem)));
  return true;
}

bool Verifier::CheckMbar(const Op& op) {
  if (op.kind == OpKind::kMbarAlloc) {
    const Type& t = Out(op);
    if (t.kind != TypeKind::kMbar || t.depth < 1)
      return Fail(kVerifyType, op, fmt::format("the result is {}", Show(t)));
    const int64_t offset = op.i("offset");
    if (offset < 0 || offset % 8 != 0 || offset + 8 * t.depth > fn_.launch.smem_bytes)
      return Fail(kVerifyMemory, op,
                  fmt::format("{} barriers at byte {} of {}; a multiple of 8", t.depth, offset,
                              fn_.launch.smem_bytes));
    return true;
  }
  if (Operand(op, 0).kind != TypeKind::kMbar)
    return Fail(kVerifyType, op, fmt::format("operand 0 is {}, not mbar", Show(Operand(op, 0))));
  if (!CheckOfCluster(op, "cluster", 1) || !CheckOfCluster(op, "leader", 1)) return false;
  if (op.kind == OpKind::kTcCommit && !CheckPair(op)) return false;
  if (op.i("cluster", 0) && op.i("leader", 0))
    return Fail(kVerifyForm, op, "at the barrier of every CTA, or at that of the first");
  if (op.kind == OpKind::kMbarInit)
    return (op.i("count") >= 1 && op.i("count") < (1 << 20)) ||
           Fail(kVerifyForm, op, fmt::format("{} arrivals", op.i("count")));
  if (op.kind == OpKind::kMbarExpect)
    return op.i("bytes") < 0 || op.i("bytes") >= (1 << 20)
               ? Fail(kVerifyForm, op, fmt::format("{} bytes; 0 … 2^20 - 1", op.i("bytes")))
               : CheckSlot(op, 1);
  if (op.kind == OpKind::kMbarWait) {
    if (!IsScalar(op, 1, DType::kI32)) return Fail(kVerifyType, op, "the parity is not an i32");
    return CheckSlot(op, 2);
  }
  return CheckSlot(op, 1);  // arrive
}

bool Verifier::CheckScalarAccess(const Op& op, bool stores, bool atomic) {
  if (!CheckTensorOperand(op, stores)) return false;
  const Type& tensor = Operand(op, 0);
  const int64_t has_fill = op.i("has_fill");
  const size_t first = stores ? 2 : 1;
  const size_t wanted = first + static_cast<size_t>(tensor.rank()) + (has_fill ? 1 : 0);
  if (op.operands.size() != wanted || has_fill < 0 || has_fill > 1)
    return Fail(
        kVerifyForm, op,
        fmt::format("{} operands for a tensor of rank {}", op.operands.size(), tensor.rank()));
  for (size_t i = first; i < first + static_cast<size_t>(tensor.rank()); ++i)
    if (!IsScalar(op, i, DType::kI64))
      return Fail(kVerifyType, op, fmt::format("position {} is not an i64", i - first));
  if (has_fill && !IsScalar(op, wanted - 1, tensor.dtype))
    return Fail(kVerifyType, op, "fill is not of the tensor's type");
  const Type& value = stores ? Operand(op, 1) : Out(op);
  if (value != Type::Scalar(tensor.dtype))
    return Fail(kVerifyType, op,
                fmt::format("the value is {}, the tensor's elements {}", Show(value),
                            Spelling(tensor.dtype)));
  return !atomic || (CheckAtomicKind(op, tensor.dtype) && CheckFetched(op));
}

// Where they are replicated, threads hand on what they found.
bool Verifier::CheckWarpAtomic(const Op& op) {
  const bool scalar = op.kind == OpKind::kGAtomicScalar;
  if (scalar ? !CheckScalarAccess(op, true, true) : !CheckAccess(op, true, true)) return false;
  if (op.results.empty())
    return !op.attr("scratch") ||
           (CheckScratch(op, ScratchBytesOf(fn_, op)) &&
            (ScratchBytesOf(fn_, op) > 0 ||
             Fail(kVerifyForm, op, "scratch, and nothing to hand on or to count")));
  if (!op.attr("scratch")) return Fail(kVerifyForm, op, "a result, and no `scratch`");
  return CheckScratch(op, ScratchBytesOf(fn_, op));
}

}  // namespace tilec::ir::verify_internal
