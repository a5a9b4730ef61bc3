// The verifier's rules of what CTAs of a cluster do together, at both levels.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "ir/diagnostics.h"
#include "ir/layout.h"
#include "ir/pushed_tile.h"
#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {

namespace {
constexpr int64_t kWidestAccess = 4;  // registers: so many a part may have more than its share
}

// Both levels: kind and types.
bool Verifier::CheckTogether(const Op& op) {
  const Type& in = Operand(op, 0);
  if (op.s("kind") != "add" && op.s("kind") != "min" && op.s("kind") != "max")
    return Fail(kVerifyForm, op,
                fmt::format("kind is \"{}\"; it is add, min or max", op.s("kind")));
  if (!in.is_tile() || ByteSize(in.dtype) != 4 || in.dtype == DType::kBool)
    return Fail(kVerifyType, op, fmt::format("operand 0 is {}; 32-bit numbers", Show(in)));
  if (op.i("all", 0) != 0 && op.i("all", 0) != 1)
    return Fail(kVerifyForm, op, fmt::format("all = {}; 0 or 1", op.i("all", 0)));
  const bool becomes = op.attr("slices") ? BecomesSlices(op) : Out(op) == in;
  return becomes || Fail(kVerifyType, op, fmt::format("{} becomes {}", Show(in), Show(Out(op))));
}

// Is the result one of `slices` runs of columns, of which the last may be shorter?
bool Verifier::BecomesSlices(const Op& op) const {
  const Type &in = Operand(op, 0), &out = Out(op);
  const int64_t slices = op.i("slices");
  return slices > 1 && op.i("all", 0) == 0 && in.rank() == 2 && out.is_tile() &&
         out.dtype == in.dtype && out.rank() == 2 && out.shape[0] == in.shape[0] &&
         out.shape[1] * slices >= in.shape[1] && out.shape[1] * (slices - 1) < in.shape[1];
}

bool Verifier::CheckClusterReduce(const Op& op) {
  const OpId grid = fn_.blocks[op.block].parent;
  if (!grid.valid() || fn_.ops[grid].kind != OpKind::kParallel ||
      fn_.ops[grid].i("cluster", 1) <= 1)
    return Fail(kVerifyStructure, op, "it does not stand directly in a `parallel` with a cluster");
  if (const int64_t ctas = fn_.ops[grid].i("cluster"); op.i("slices", 1) > ctas)
    return Fail(kVerifyForm, op, fmt::format("{} slices of {} CTAs", op.i("slices"), ctas));
  return CheckTogether(op);
}

// An attribute that speaks of the other CTAs of a cluster: 0 … most.
bool Verifier::CheckOfCluster(const Op& op, const char* name, int64_t most) {
  const int64_t value = op.i(name, 0);
  if (value < 0 || value > most)
    return Fail(kVerifyForm, op, fmt::format("{} = {}; 0 … {}", name, value, most));
  if (op.attr(name) != nullptr && value > 0 && fn_.launch.cluster <= 1)
    return Fail(kVerifyForm, op,
                fmt::format("{} = {}, but CTAs come alone: clusters of 1", name, value));
  return true;
}

// Tensor memory of a kernel is used by pairs of CTAs, which are whole clusters, or by none.
bool Verifier::CheckPair(const Op& op) {
  const int64_t pair = op.i("pair", 0);
  if (!CheckOfCluster(op, "pair", 1)) return false;
  if (pair && fn_.launch.cluster != 2)
    return Fail(kVerifyForm, op, fmt::format("a pair in clusters of {}", fn_.launch.cluster));
  const bool others = std::any_of(fn_.ops.begin(), fn_.ops.end(), [&](const Op& other) {
    return other.kind == OpKind::kTmemAlloc && other.i("pair", 0) != pair;
  });
  return !others ||
         Fail(kVerifyForm, op, fmt::format("pair = {}, and columns are allocated otherwise", pair));
}

bool Verifier::CheckWarpClusterReduce(const Op& op, const Scope& scope) {
  const OpId role = fn_.blocks[op.block].parent;
  if (!role.valid() || fn_.ops[role].kind != OpKind::kRole)
    return Fail(kVerifyStructure, op, "it does not stand directly in a role");
  const int64_t ctas = fn_.launch.cluster;
  if (ctas <= 1) return Fail(kVerifyForm, op, "CTAs come alone: clusters of 1");
  if (!CheckTogether(op)) return false;
  const Type &tile = Operand(op, 0), &smem = Operand(op, 1), &mbar = Operand(op, 2);
  const int64_t slices = op.i("slices", 0), parts = slices > 0 ? slices : ctas;
  if (smem.kind != TypeKind::kSmem || smem.dtype != tile.dtype || parts > ctas ||
      ((smem.depth != 1 || slices > 0) && smem.depth != parts))
    return Fail(kVerifyType, op,
                fmt::format("operand 1 is {}; {}{} parts of {}", Show(smem),
                            slices > 0 ? "" : "1 or ", parts, Show(tile)));
  for (int64_t p = 0; p < slices; ++p)
    if (!ColumnsMap(fn_.layouts[tile.layout], fn_.layouts[Out(op).layout], p * Out(op).shape.back(),
                    tile.shape.back()))
      return Fail(kVerifyType, op,
                  fmt::format("slice {} of {} is not in the registers of one number of all threads",
                              p, Show(tile)));
  if (op.i("all", 0) != 0 && smem.depth != 1) {  // a slot for what each CTA puts there
    const auto sent = tile.is_scalar() ? std::optional(PushedTile())
                                       : PushedTileOf(fn_.layouts[tile.layout], tile.shape);
    if (!sent || SmemBytes(smem.smem, smem.dtype) < 4 * sent->elements())
      return Fail(kVerifyType, op, fmt::format("operand 1 is {}; all read it whole", Show(smem)));
    return (mbar.kind == TypeKind::kMbar && mbar.depth == 1) ||
           Fail(kVerifyType, op, fmt::format("operand 2 is {}, not mbar<1>", Show(mbar)));
  }
  const int64_t regs = tile.is_scalar() ? 1 : fn_.layouts[tile.layout].regs();
  // Of each thread as many registers in every part; the last parts may have less, or nothing.
  const int64_t of_all = scope.threads * static_cast<int64_t>(ByteSize(tile.dtype));
  const int64_t part = SmemBytes(smem.smem, smem.dtype);
  const int64_t count = part / of_all, least = (regs + smem.depth - 1) / smem.depth;
  const bool fits = slices > 0 ? count == fn_.layouts[Out(op).layout].regs()
                               : count >= least && count - least < kWidestAccess;
  if (part % of_all != 0 || !fits)
    return Fail(kVerifyMemory, op,
                fmt::format("{} is no place for {} registers of {} threads", Show(smem), regs,
                            scope.threads));
  if (mbar.kind != TypeKind::kMbar || (slices > 0 ? mbar.depth > 2 : mbar.depth != 3))
    return Fail(kVerifyType, op,
                fmt::format("operand 2 is {}, not mbar<{}>", Show(mbar), slices > 0 ? "2" : "3"));
  return true;
}

}  // namespace tilec::ir::verify_internal
