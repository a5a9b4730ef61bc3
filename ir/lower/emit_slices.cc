// What leads to a store, by slices of columns: elementwise work whose tile only the store reads is
// computed where the store takes it, a few columns at a time.
//
// An epilogue of whole tiles would keep the accumulator, what is added to it and every intermediate
// tile alive at once; by slices all but one slice of each intermediate is gone.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emit_rules.h"
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

// Columns [first, first + width) of a tile of `layout`; the ops of `sliced` are made for them
// alone.
ValueId Emitter::Slice(const std::set<OpId>& sliced, ValueId v, const Layout& layout, int64_t first,
                       int64_t width) {
  if (const auto made = slices_.find({v, first}); made != slices_.end()) return made->second;
  const Value& value = in_.values[v];
  std::vector<int64_t> shape = Squeezed(value.type.shape);
  shape.back() = width;
  const Type type = Type::Tile(value.type.dtype, shape, out_.Intern(ColumnsLayout(layout, width)));
  ValueId slice;
  if (const std::optional<size_t> sum = SumBySlices(sliced, v)) {
    if (p_.sums[*sum].resident() ? !sums_[*sum].quiet : sums_[*sum].committed) AwaitSum(*sum);
    slice = LoadSum(*sum, type, first);
  } else if (value.def.valid() && sliced.count(value.def)) {
    const Op op = in_.ops[value.def];
    const Span here = b_.span();
    if (op.kind == OpKind::kLoad) {
      slice = LoadSlice(op, type, layout, first);
    } else if (op.kind == OpKind::kReshape) {
      slice = Slice(sliced, op.operands[0], layout, first, width);
    } else if (op.kind == OpKind::kBroadcast) {
      const std::vector<int> keep = KeptDims(in_, op);
      const Layout part = KeepDims(layout, keep);
      const ValueId from = keep.empty() ? Tile(op.operands[0])
                           : keep.back() == layout.rank - 1
                               ? Slice(sliced, op.operands[0], part, first, width)
                               : InLayout(Tile(op.operands[0]), part);
      slice = from;
      if (keep.size() < shape.size()) {
        b_.SetSpan(op.at);
        slice = b_.Value(OpKind::kWarpBroadcast, {from}, type,
                         {{"axes", std::vector<int64_t>(keep.begin(), keep.end())}});
      }
    } else {
      std::vector<ValueId> operands;
      for (ValueId operand : op.operands)
        operands.push_back(Slice(sliced, operand, layout, first, width));
      b_.SetSpan(op.at);
      slice = b_.Value(op.kind, std::move(operands), type, op.attrs);
    }
    b_.SetSpan(here);
  } else if (value.def.valid() && in_.ops[value.def].kind == OpKind::kConstant) {
    slice = b_.Value(OpKind::kConstant, {}, type, in_.ops[value.def].attrs);
  } else {
    slice = b_.Value(OpKind::kWarpColumns, {InLayout(Tile(v), layout)}, type, {{"first", first}});
  }
  return slices_[{v, first}] = slice;
}

ValueId Emitter::LoadSlice(const Op& op, const Type& type, const Layout& layout, int64_t first) {
  Access access = WarpAccess(op, op.results[0], &layout, true);
  ValueId& start = access.operands[access.operands.size() - (op.i("has_fill") ? 2 : 1)];
  if (first > 0) start = b_.Binary(OpKind::kAdd, start, b_.Int(first));
  access.sizes.back() = type.shape.back();
  access.operands.insert(access.operands.begin(), Scalar(op.operands[0]));
  const int64_t vector = VectorFor(op, out_.layouts[type.layout], type.shape, type.dtype);
  return b_.Value(OpKind::kGLoad, std::move(access.operands), type,
                  {{"modes", access.modes},
                   {"sizes", access.sizes},
                   {"has_fill", op.i("has_fill")},
                   {"vector", vector}});
}

// By threads: each slice leaves as soon as it is made.
void Emitter::StoreBySlices(OpId id) {
  const Op& op = in_.ops[id];
  const ValueId value = op.operands[1];
  const int64_t width = p_.epilogues.at(id).slice_width, columns = in_.type(value).shape[1];
  const Layout layout = ColumnsLayout(plan_.layouts.at(value), width);
  const Access access = WarpAccess(op, value, &plan_.layouts.at(value), true);
  for (int64_t first = 0; first < columns; first += width) {
    const ValueId tile =
        Slice(p_.epilogues.at(id).sliced, value, plan_.layouts.at(value), first, width);
    std::vector<ValueId> operands = {Scalar(op.operands[0]), tile};
    operands.insert(operands.end(), access.operands.begin(), access.operands.end());
    ValueId& start = operands[operands.size() - 2];  // … and the end, which stays
    if (first > 0) start = b_.Binary(OpKind::kAdd, start, b_.Int(first));
    std::vector<int64_t> sizes = access.sizes;
    sizes.back() = width;
    const Type& type = out_.type(tile);
    const int64_t vector = VectorFor(op, layout, type.shape, type.dtype);
    b_.Add(OpKind::kGStore, std::move(operands), {},
           {{"modes", access.modes}, {"sizes", sizes}, {"vector", vector}});
  }
  EndSlices(id);
}

}  // namespace tilec::ir
