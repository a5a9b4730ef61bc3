// Tiles in registers: elementwise ops, shapes, reductions and changes of layout.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/layout_scratch.h"
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"
#include "ir/reshaped_layout.h"

namespace tilec::ir {

ValueId Emitter::Tile(ValueId v) {
  if (!pending_.empty()) {
    const Op* def = in_.def(v);
    if (def && def->kind == OpKind::kLoad && !map_.count(v)) FlushLoads();
  }
  if (const OpId def = in_.values[v].def; def.valid() && p_.KeepsUntilRead(def) && !map_.count(v))
    IntoRegisters(def);
  for (size_t sum : due_)
    if (p_.sums[sum].result == v) {
      TakeSum(sum);
      break;
    }
  for (size_t i = 0; i < flights_.size(); ++i)
    if (flights_[i].lands == v) {
      Settle(i + 1);
      break;
    }
  auto it = map_.find(v);
  CHECK(it != map_.end(), "tile used before it was lowered");
  return it->second;
}

void Emitter::WantScratch(OpId op, int64_t bytes) {
  if (bytes == 0) return;
  emitted_.scratch[role_].ops.emplace_back(op, bytes);
}

// The same tile in `layout`: nothing, a cheap remake (constants, splats, iotas), register renaming,
// or a trip through shared memory.
namespace {
constexpr int kFewSteps = 4;

// Positions and constants, and what few ops make of them: integers made again where others need
// them cost less than threads that give them to one another. (Floats are left: exponentials are
// among them.)
bool MadeOfPositions(const Function& fn, ValueId v, int steps) {
  if (fn.type(v).shape.empty()) return true;
  const Op* def = fn.def(v);
  if (!def || steps == 0) return false;
  if (def->kind == OpKind::kConstant || def->kind == OpKind::kWarpIota) return true;
  if (def->kind == OpKind::kWarpBroadcast && def->ints("axes").empty()) return true;
  return Info(def->kind).elementwise() &&
         std::all_of(def->operands.begin(), def->operands.end(),
                     [&](ValueId operand) { return MadeOfPositions(fn, operand, steps - 1); });
}
}  // namespace

ValueId Emitter::InLayout(ValueId warp, const Layout& layout) {
  const Type from = out_.type(warp);
  if (from.shape.empty() || out_.layout(warp) == layout) return warp;
  Type to = from;
  to.layout = out_.Intern(layout);
  if (const Op* def = out_.def(warp)) {
    const Op source = *def;  // Add below may move the ops
    const bool remake = source.kind == OpKind::kConstant || source.kind == OpKind::kWarpIota ||
                        (source.kind == OpKind::kWarpBroadcast && source.ints("axes").empty());
    if (remake) return b_.Value(source.kind, source.operands, to, source.attrs);
    if (IsInteger(from.dtype) && MadeOfPositions(out_, warp, kFewSteps) &&
        ConvertScratchBytes(from, out_.layout(warp), layout) > 0) {
      std::vector<ValueId> operands;
      for (ValueId v : source.operands) operands.push_back(InLayout(v, layout));
      return b_.Value(source.kind, std::move(operands), to, source.attrs);
    }
  }
  const Layout old = out_.layout(warp);
  const OpId op = b_.Add(OpKind::kConvert, {warp}, {to}, {{"scratch", int64_t{-1}}});
  WantScratch(op, ConvertScratchBytes(from, old, layout));
  return out_.ops[op].results[0];
}

void Emitter::Elementwise(const Op& op) {
  const ValueId result = op.results[0];
  if (const auto half = halfway_.find(in_.values[result].def); half != halfway_.end()) {
    const ValueId tile = half->second;
    halfway_.erase(half);
    return Bind(result, b_.Cast(tile, in_.type(result).dtype));
  }
  std::vector<ValueId> operands;
  auto it = Layouts().find(result);
  for (ValueId v : op.operands) {
    const ValueId tile = Tile(v);
    operands.push_back(it == Layouts().end() ? tile : InLayout(tile, it->second));
  }
  Bind(result, b_.Value(op.kind, std::move(operands), WarpType(result), op.attrs));
}

void Emitter::Broadcast_(const Op& op) {
  const ValueId result = op.results[0];
  const Type& from = in_.type(op.operands[0]);
  const Type& to = in_.type(result);
  ValueId tile = Tile(op.operands[0]);
  auto it = Layouts().find(result);
  if (it == Layouts().end()) return Bind(result, tile);
  const Layout& layout = it->second;
  std::vector<int> keep;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.shape.size(); ++i)
    if (from.shape[i] != 1) {
      keep.push_back(SqueezedDim(to.shape, op.ints("axes")[i]));
      axes.push_back(keep.back());
    }
  if (keep.size() == static_cast<size_t>(layout.rank)) return Bind(result, InLayout(tile, layout));
  if (!keep.empty()) tile = InLayout(tile, KeepDims(layout, keep));
  Bind(result, b_.Value(OpKind::kWarpBroadcast, {tile}, WarpType(result), {{"axes", axes}}));
}

void Emitter::Transpose_(const Op& op) {
  const ValueId result = op.results[0];
  const Type& from = in_.type(op.operands[0]);
  const ValueId tile = Tile(op.operands[0]);
  if (!plan_.layouts.count(result)) return Bind(result, tile);
  std::vector<int64_t> perm;
  for (int64_t d : op.ints("perm"))
    if (int s = SqueezedDim(from.shape, d); s >= 0) perm.push_back(s);
  if (std::is_sorted(perm.begin(), perm.end()))
    return Bind(result, InLayout(tile, plan_.layouts.at(result)));
  Type type = WarpType(result);
  type.layout = out_.Intern(PermuteLayout(out_.layout(tile), perm));
  const ValueId turned = b_.Value(OpKind::kWarpTranspose, {tile}, type, {{"perm", perm}});
  Bind(result, InLayout(turned, plan_.layouts.at(result)));
}

Result<> Emitter::Reduce_(const Op& op) {
  const ValueId result = op.results[0];
  const Type& from = in_.type(op.operands[0]);
  const ValueId tile = Tile(op.operands[0]);
  const int axis = SqueezedDim(from.shape, op.i("axis"));
  const bool arg = op.kind == OpKind::kArgReduce;
  if (axis < 0) {
    Bind(result, arg ? b_.Constant(WarpType(result), 0) : tile);
    return Done();
  }
  const Layout source = out_.layout(tile);
  Type type = WarpType(result);
  const Layout slice = SliceLayout(source, axis);
  if (!type.shape.empty()) type.layout = out_.Intern(slice);
  Attrs attrs = {{"kind", op.s("kind")}, {"axis", int64_t{axis}}, {"scratch", int64_t{-1}}};
  std::vector<ValueId> operands = {tile};
  if (const ValueId guard = GuardOf(op); guard.valid() && !type.shape.empty())
    if (const ValueId bar = Tile(guard); out_.layout(bar) == slice) operands.push_back(bar);
  const OpId reduce = b_.Add(arg ? OpKind::kWarpArgReduce : OpKind::kWarpReduce,
                             std::move(operands), {type}, std::move(attrs));
  WantScratch(reduce, ReduceScratchBytes(out_.type(tile), source, axis, arg));
  const ValueId value = out_.ops[reduce].results[0];
  Bind(result, type.shape.empty() ? value : InLayout(value, plan_.layouts.at(result)));
  return Done();
}

// The digits along the axis must nest; where a class of layouts has others, the scan runs in one
// whose digits do.
void Emitter::Scan_(const Op& op) {
  const ValueId result = op.results[0];
  const Type& from = in_.type(op.operands[0]);
  ValueId tile = Tile(op.operands[0]);
  const int axis = SqueezedDim(from.shape, op.i("axis"));
  if (axis < 0) return Bind(result, tile);
  if (!PlanScan(out_.layout(tile), axis))
    tile = InLayout(tile, BlockedLayout(out_.type(tile).shape, 1, out_.layout(tile).threads()));
  const std::optional<ScanPlan> plan = PlanScan(out_.layout(tile), axis);
  CHECK(plan, "a blocked layout nests");
  const Type type = out_.type(tile);
  const OpId scan =
      b_.Add(OpKind::kWarpScan, {tile}, {type},
             {{"kind", op.s("kind")}, {"axis", int64_t{axis}}, {"scratch", int64_t{-1}}});
  WantScratch(scan, ScanScratchBytes(type, *plan));
  Bind(result, InLayout(out_.ops[scan].results[0], plan_.layouts.at(result)));
}

void Emitter::Rearrange_(const Op& op) {
  const ValueId result = op.results[0];
  const ValueId tile = Tile(op.operands[0]);
  const Type to = in_.type(result);
  const Type from = out_.type(tile);
  if (KeepsNumbers(in_, op) && !from.shape.empty() && !WarpType(result).shape.empty() &&
      ReshapedRegisters(out_.layout(tile), from.shape, plan_.layouts.at(result),
                        WarpType(result).shape))
    return Bind(result, b_.Value(OpKind::kWarpReshape, {tile}, WarpType(result)));
  std::vector<int64_t> strides;
  for (size_t d = 0; d < to.shape.size(); ++d)
    if (to.shape[d] != 1) strides.push_back(op.ints("strides")[d]);
  const OpId moved =
      b_.Add(OpKind::kWarpRearrange, {tile}, {WarpType(result)},
             {{"first", op.i("first")}, {"strides", std::move(strides)}, {"scratch", int64_t{-1}}});
  WantScratch(moved, RearrangeScratchBytes(out_.type(tile)));
  Bind(result, out_.ops[moved].results[0]);
}

ValueId Emitter::Reshape_(ValueId warp, const std::vector<int64_t>& shape, const Layout& layout) {
  const Type& from = out_.type(warp);
  if (from.shape == shape) return warp;
  const Type to =
      shape.empty() ? Type::Scalar(from.dtype) : Type::Tile(from.dtype, shape, out_.Intern(layout));
  return b_.Value(OpKind::kWarpReshape, {warp}, to);
}

}  // namespace tilec::ir
