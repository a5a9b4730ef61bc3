// SPDX-License-Identifier: Apache-2.0
#include "ir/narrow_dims.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "ir/integer_range.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

constexpr OpKind kWide[] = {
    OpKind::kBroadcast,    OpKind::kWarpBroadcast, OpKind::kReshape,
    OpKind::kWarpReshape,  OpKind::kReduce,        OpKind::kWarpReduce,
    OpKind::kConvert,      OpKind::kPin,           OpKind::kLoad,
    OpKind::kStore,        OpKind::kAtomic,        OpKind::kGLoad,
    OpKind::kGStore,       OpKind::kGAtomic,       OpKind::kGLoadScalar,
    OpKind::kGStoreScalar, OpKind::kGAtomicScalar, OpKind::kParallel,
    OpKind::kFor,          OpKind::kWhile,         OpKind::kIf,
    OpKind::kYield,        OpKind::kAssert,        OpKind::kPrint,
};

class Looker {
 public:
  explicit Looker(const Function& fn) : fn_(fn), ranges_(fn) {}

  std::set<std::string> Run() {
    for (const OpId id : OpsInOrder(fn_)) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kFor && op.i("narrow", 0) != 0) Grid();
      if (KeepsWide(op)) continue;
      for (const ValueId v : op.operands)
        if (Wide(v) && !Fits(v)) Follow(v);
    }
    return std::move(names_);
  }

 private:
  bool Wide(ValueId v) const {
    const Type& type = fn_.type(v);
    return (type.is_scalar() || type.is_tile()) && IsInteger(type.dtype) &&
           ByteSize(type.dtype) == 8;
  }

  // With room for what a tile has behind it.
  bool Fits(ValueId v) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - (int64_t{1} << 24);
    const std::optional<int64_t> least = Bound(v, false), most = Bound(v, true);
    return least && most && *least >= -kMost && *most <= kMost;
  }

  // What the value is never above, or never below. Of the smaller of two numbers one may be open.
  std::optional<int64_t> Bound(ValueId v, bool above) {
    if (const KnownRange range = ranges_.Of(v)) return above ? range->most : range->least;
    const Op* def = fn_.def(v);
    if (!def || (def->kind != OpKind::kMin && def->kind != OpKind::kMax)) return std::nullopt;
    const auto a = Bound(def->operands[0], above), b = Bound(def->operands[1], above);
    const bool min = def->kind == OpKind::kMin;
    if (!a || !b) return above != min ? std::nullopt : a ? a : b;
    return min ? std::min(*a, *b) : std::max(*a, *b);
  }

  // Does the op take positions of 64 bits as they are? What is not known is taken to make less
  // of them.
  bool KeepsWide(const Op& op) const {
    if (op.kind == OpKind::kCast || op.kind == OpKind::kIota || op.kind == OpKind::kWarpIota) {
      const DType to = fn_.type(op.results[0]).dtype;
      return !IsInteger(to) || ByteSize(to) == 8;
    }
    return Info(op.kind).elementwise() ||
           std::find(std::begin(kWide), std::end(kWide), op.kind) != std::end(kWide);
  }

  // The number of a CTA.
  void Grid() {
    if (fn_.level == Level::kTile) return All();
    for (const std::string& name : NamesIn(fn_.launch.grid)) names_.insert(name);
  }

  // A number from a caller or from memory may be a position along any dim.
  void All() {
    for (const Param& p : fn_.params)
      if (p.kind == ParamKind::kDim) names_.insert(p.name);
  }

  void Follow(ValueId v) {
    if (!seen_.insert(v).second) return;
    if (const Param* param = fn_.param(v)) {
      if (param->kind == ParamKind::kDim)
        names_.insert(param->name);
      else if (param->kind == ParamKind::kScalar)
        All();
      return;
    }
    if (const OpId def = fn_.values[v].def; def.valid()) return FollowResult(fn_.ops[def]);
    const BlockId block = fn_.values[v].block;
    if (!block.valid() || !fn_.blocks[block].parent.valid()) return;
    const Op& parent = fn_.ops[fn_.blocks[block].parent];
    const std::vector<ValueId>& args = fn_.blocks[block].args;
    const auto at = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
    if (parent.kind == OpKind::kParallel && 2 * at + 1 < parent.operands.size()) {
      Follow(parent.operands[2 * at]);
      Follow(parent.operands[2 * at + 1]);
    } else if (parent.kind == OpKind::kFor && at == 0) {
      Follow(parent.operands[0]);
      Follow(parent.operands[1]);
    } else {
      FollowResult(parent);
    }
  }

  void FollowResult(const Op& op) {
    if (op.kind == OpKind::kConstant) return;
    if (std::any_of(op.operands.begin(), op.operands.end(),
                    [&](ValueId v) { return fn_.type(v).is_tensor(); }))
      return All();
    if (op.operands.empty() && op.regions.empty()) return Grid();
    for (const ValueId v : op.operands) Follow(v);
    for (const BlockId region : op.regions)
      for (const ValueId v : fn_.ops[fn_.blocks[region].ops.back()].operands) Follow(v);
  }

  const Function& fn_;
  IntegerRanges ranges_;
  std::set<ValueId> seen_;
  std::set<std::string> names_;
};

}  // namespace

std::set<std::string> NarrowDims(const Function& fn) { return Looker(fn).Run(); }

}  // namespace tilec::ir
