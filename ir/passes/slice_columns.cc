// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/slice_columns.h"

#include <algorithm>

#include "ir/passes/rewrite.h"
#include "ir/queries.h"
#include "support/check.h"
#include "support/expr.h"

namespace tilec::ir {
namespace {

constexpr int64_t kEights = 8;  // columns that lie in the same registers in accumulators

// The range of an access that makes dim `dim` of its tile, alone: its place among the modes and its
// first operand.
struct Range {
  size_t mode, operand;
};
std::optional<Range> RangeOf(const Op& op, int64_t dim) {
  const bool store = op.kind == OpKind::kStore;
  const std::string& modes = op.s("modes");
  size_t operand = store ? 2 : 1;
  for (size_t d = 0; d < modes.size(); ++d) {
    if (IsGathered(modes[d])) return std::nullopt;
    if (TakesDim(modes[d]) && dim-- == 0) {
      if (d > 0 && modes[d - 1] == 'f') return std::nullopt;
      return Range{d, operand};
    }
    operand += OperandsOf(modes[d], store);
  }
  return std::nullopt;
}

// The operand's dim that becomes `dim` by a broadcast, if there is one and it is as long.
std::optional<int64_t> BroadcastDim(const Function& fn, const Op& op, int64_t dim) {
  const std::vector<int64_t>& axes = op.ints("axes");
  const auto at = std::find(axes.begin(), axes.end(), dim);
  if (at == axes.end()) return std::nullopt;
  const int64_t from = at - axes.begin();
  return fn.type(op.operands[0]).shape[static_cast<size_t>(from)] > 1 ? std::optional(from)
                                                                      : std::nullopt;
}

// The operand's dim that becomes `dim`, which is longer than one, by a reshape: others of one
// element come and go.
int64_t ReshapedDim(const Function& fn, const Op& op, int64_t dim) {
  const auto longer = [](int64_t n) { return n > 1; };
  const std::vector<int64_t>&to = fn.type(op.results[0]).shape,
        &from = fn.type(op.operands[0]).shape;
  const auto before = std::count_if(to.begin(), to.begin() + dim, longer);
  int64_t seen = 0, at = 0;
  while (!longer(from[static_cast<size_t>(at)]) || seen++ < before) ++at;
  return at;
}

}  // namespace

Slices SlicesOf(int64_t columns, int64_t ctas) {
  const int64_t eights = columns / kEights, each = CeilDiv(eights, ctas);
  if (columns % kEights != 0 || eights < 2 || each * ctas > 2 * eights) return {};
  return {CeilDiv(eights, each), kEights * each};
}

ColumnSlices::ColumnSlices(const Function& fn, const std::vector<ValueId>& sums,
                           const std::vector<OpId>& tail, int64_t ctas)
    : fn_(fn), columns_(fn.type(sums.front()).shape.back()), slices_(SlicesOf(columns_, ctas)) {
  for (ValueId sum : sums) dims_[sum] = 1;
  for (OpId id : tail) {
    const Op& op = fn.ops[id];
    possible_ = possible_ && Follow(op);
    if (op.kind == OpKind::kStore)
      (dims_.count(op.operands[1]) > 0 ? stores_ : others_).push_back(id);
  }
  possible_ = possible_ && !stores_.empty() && slices_.count > 1;
  // Of two stores to one tensor the second counts: one CTA makes both.
  for (OpId other : others_)
    for (OpId id : stores_)
      possible_ = possible_ && fn.ops[other].operands[0] != fn.ops[id].operands[0];
  for (OpId id : stores_)
    possible_ = possible_ && MayCut(fn.ops[id].operands[1], dims_[fn.ops[id].operands[1]]);
}

// Where are the columns in what the op makes? False: it may not be cut.
bool ColumnSlices::Follow(const Op& op) {
  if (!op.regions.empty()) return false;
  if (op.kind == OpKind::kStore) {
    const auto cut = dims_.find(op.operands[1]);
    return cut == dims_.end() || RangeOf(op, cut->second).has_value();
  }
  if (Info(op.kind).effect == OpEffect::kWrite) return false;
  for (ValueId v : op.operands) {
    const auto known = dims_.find(v);
    if (known == dims_.end()) continue;
    int64_t dim = known->second;
    if (op.kind == OpKind::kTranspose) {
      const std::vector<int64_t>& perm = op.ints("perm");
      dim = std::find(perm.begin(), perm.end(), dim) - perm.begin();
    } else if (!Info(op.kind).elementwise()) {
      return false;
    }
    const auto [at, fresh] = dims_.try_emplace(op.results[0], dim);
    if (!fresh && at->second != dim) return false;
  }
  return true;
}

bool ColumnSlices::MayCut(ValueId v, int64_t dim) const {
  const Type& type = fn_.type(v);
  if (!type.is_tile() || type.shape[static_cast<size_t>(dim)] != columns_) return false;
  const Op* def = fn_.def(v);
  if (!def || def->kind == OpKind::kFor) return dims_.count(v) > 0 && dims_.at(v) == dim;
  if (Info(def->kind).elementwise())
    return std::all_of(def->operands.begin(), def->operands.end(),
                       [&](ValueId operand) { return MayCut(operand, dim); });
  switch (def->kind) {
    case OpKind::kConstant:
    case OpKind::kIota: return true;
    case OpKind::kTranspose:
      return MayCut(def->operands[0], def->ints("perm")[static_cast<size_t>(dim)]);
    case OpKind::kReshape: return MayCut(def->operands[0], ReshapedDim(fn_, *def, dim));
    case OpKind::kBroadcast: {
      const auto from = BroadcastDim(fn_, *def, dim);
      return !from || MayCut(def->operands[0], *from);
    }
    case OpKind::kLoad: return MayCutLoad(*def, dim);
    default: return false;
  }
}

bool ColumnSlices::MayCutLoad(const Op& op, int64_t dim) const {
  // Beyond a last slice that is shorter lies what others write.
  return RangeOf(op, dim).has_value() &&
         (IsReadOnlyLoad(fn_, op) || (slices_.even(columns_) && StoredAsLoaded(op)));
}

// Does nobody store to the tensor but one store, to the place that is loaded?
bool ColumnSlices::StoredAsLoaded(const Op& load) const {
  int stores = 0;
  for (OpId id : stores_) {
    const Op& store = fn_.ops[id];
    if (store.operands[0] != load.operands[0]) continue;
    const std::string& modes = store.s("modes");
    if (++stores > 1 || modes != load.s("modes") || store.ints("sizes") != load.ints("sizes"))
      return false;
    size_t from = 1, to = 2;
    for (char mode : modes) {
      if (load.operands[from] != store.operands[to]) return false;
      from += OperandsOf(mode, false), to += OperandsOf(mode, true);
    }
  }
  return true;
}

ValueId ColumnSlices::Of(Builder& b, ValueId v, int64_t dim) {
  if (const auto known = made_.find({v, dim}); known != made_.end()) return known->second;
  const Op op = fn_.ops[fn_.values[v].def];  // a copy: adding moves the ops
  std::vector<ValueId> operands = op.operands;
  Attrs attrs = op.attrs;
  Type type = fn_.type(v);
  type.shape[static_cast<size_t>(dim)] = slices_.width;
  if (Info(op.kind).elementwise()) {
    for (ValueId& operand : operands) operand = Of(b, operand, dim);
  } else if (op.kind == OpKind::kTranspose) {
    operands[0] = Of(b, operands[0], op.ints("perm")[static_cast<size_t>(dim)]);
  } else if (op.kind == OpKind::kReshape) {
    operands[0] = Of(b, operands[0], ReshapedDim(fn_, op, dim));
  } else if (op.kind == OpKind::kBroadcast) {
    if (const auto from = BroadcastDim(fn_, op, dim)) operands[0] = Of(b, operands[0], *from);
  } else if (op.kind == OpKind::kIota) {
    operands[0] = b.Binary(OpKind::kAdd, operands[0], first_);
  } else if (op.kind == OpKind::kLoad) {
    const Range place = *RangeOf(op, dim);
    operands[place.operand] = b.Binary(OpKind::kAdd, operands[place.operand], first_);
    std::vector<int64_t> sizes = op.ints("sizes");
    sizes[place.mode] = slices_.width;
    for (auto& [name, value] : attrs)
      if (name == "sizes") value = sizes;
  } else {
    CHECK(op.kind == OpKind::kConstant, "ColumnSlices: what MayCut lets through");
  }
  const Span outer = b.span();
  b.SetSpan(op.at);
  const ValueId slice = b.Value(op.kind, std::move(operands), type, std::move(attrs));
  b.SetSpan(outer);
  b.fn().values[slice].name = fn_.values[v].name;
  return made_[{v, dim}] = slice;
}

void ColumnSlices::Store(Builder& b, const std::map<ValueId, ValueId>& slices) {
  for (const auto& [sum, slice] : slices) made_[{sum, 1}] = slice;
  for (OpId id : stores_) {
    const Op op = fn_.ops[id];
    const int64_t dim = dims_.at(op.operands[1]);
    const Range place = *RangeOf(op, dim);
    std::vector<ValueId> operands = op.operands;
    operands[1] = Of(b, operands[1], dim);
    b.SetSpan(op.at);
    // The range ends where it did: slices end before, but for a last one that is shorter.
    operands[place.operand] = b.Binary(OpKind::kAdd, operands[place.operand], first_);
    std::vector<int64_t> sizes = op.ints("sizes");
    sizes[place.mode] = slices_.width;
    Attrs attrs = op.attrs;
    for (auto& [name, value] : attrs)
      if (name == "sizes") value = sizes;
    if (!slices_.even(columns_)) attrs.emplace_back("ends_inside", int64_t{1});
    b.Add(OpKind::kStore, std::move(operands), {}, std::move(attrs));
  }
}

}  // namespace tilec::ir
