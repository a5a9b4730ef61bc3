// What leads to a store, by slices of columns: elementwise work whose tile only the store reads is
// computed where the store takes it, a few columns at a time.
//
// An epilogue of whole tiles would keep the accumulator, what is added to it and every intermediate
// tile alive at once; by slices all but one slice of each intermediate is gone.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {
constexpr int64_t kWidths[] = {64, 32};  // of a slice; narrower ones would store in short pieces
}

// Columns of a slice of the tile that a store takes; 0: it is stored as a whole.
int64_t Emitter::SliceWidth(OpId store) const {
  const ValueId value = in_.ops[store].operands[1];
  const auto layout = plan_.layouts.find(value);
  const std::vector<int64_t>& shape = in_.type(value).shape;
  if (layout == plan_.layouts.end() || shape.size() != 2 || Squeezed(shape).size() != 2) return 0;
  for (int64_t width : kWidths) {
    if (shape[1] % width != 0 || shape[1] <= width) continue;
    bool apart = true;
    for (int64_t first = 0; first < shape[1]; first += width)
      apart = apart &&
              ColumnsMap(layout->second, ColumnsLayout(layout->second, width), first).has_value();
    if (apart) return width;
  }
  return 0;
}

// Which dims of a broadcast's result are its operand's, in the squeezed shapes.
std::vector<int> Emitter::KeptDims(const Op& broadcast) const {
  const std::vector<int64_t>& from = in_.type(broadcast.operands[0]).shape;
  const std::vector<int64_t>& to = in_.type(broadcast.results[0]).shape;
  std::vector<int> keep;
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1) keep.push_back(SqueezedDim(to, broadcast.ints("axes")[i]));
  return keep;
}

// Does the op make its columns from the same columns of operand `i`?
bool Emitter::ByColumns(const Op& op, size_t i) const {
  const auto from = plan_.layouts.find(op.operands[i]), to = plan_.layouts.find(op.results[0]);
  if (from == plan_.layouts.end() || to == plan_.layouts.end()) return false;
  if (op.kind != OpKind::kBroadcast) return from->second == to->second;
  const std::vector<int> keep = KeptDims(op);
  return !keep.empty() && keep.back() == to->second.rank - 1 &&
         from->second == KeepDims(to->second, keep);
}

// A tile that is loaded for a store's sake alone, from where nobody writes: threads bring each
// slice when its turn comes, and the shared memory that the tile would take is left to the rings.
bool Emitter::LoadsBySlices(OpId id) const {
  const Op& op = in_.ops[id];
  if (op.kind != OpKind::kLoad || !IsReadOnlyLoad(in_, op)) return false;
  const LoadPlan& load = plan_.loads.at(id);
  return (!load.buffer || load.tma) && load.registers && !load.shares.valid() &&
         op.s("modes").back() == 'r' && in_.type(op.results[0]).rank() == 2;
}

void Emitter::FindSlices() {
  if (!options_.slice_epilogues) return;
  for (const auto& [store, plan] : plan_.stores) {
    const Op& op = in_.ops[store];
    const bool ends_in_range = op.s("modes").back() == 'r';
    if (!SliceWidth(store) || !(plan.tma ? PanelsInFlight(store) > 0 : ends_in_range)) continue;
    std::set<OpId>& slice = sliced_[store];
    std::set<ValueId> whole;  // values whose columns are not those of the store, for some reader
    const std::vector<OpId>& block = in_.blocks[op.block].ops;
    for (auto at = std::find(block.rbegin(), block.rend(), store); at != block.rend(); ++at) {
      const Op& maker = in_.ops[*at];
      const bool kind = Info(maker.kind).elementwise() || maker.kind == OpKind::kBroadcast ||
                        maker.kind == OpKind::kReshape || LoadsBySlices(*at);
      if (!kind || !plan_.layouts.count(maker.results[0]) || maker.attr("signal") ||
          maker.attr("await") || whole.count(maker.results[0]) || deferred_.count(*at))
        continue;
      const std::vector<Uses::Use>& uses = uses_.of(maker.results[0]);
      const bool here = !uses.empty() && std::all_of(uses.begin(), uses.end(), [&](auto& use) {
        return use.reader == store || slice.count(use.reader) > 0;
      });
      if (!here) continue;
      slice.insert(*at);
      if (maker.kind == OpKind::kLoad) continue;
      for (size_t i = 0; i < maker.operands.size(); ++i)
        if (!ByColumns(maker, i)) whole.insert(maker.operands[i]);
    }
    deferred_.insert(slice.begin(), slice.end());
  }
  bool fewer = false;
  for (OpId id : deferred_)
    if (auto load = plan_.loads.find(id); load != plan_.loads.end() && load->second.buffer) {
      load->second.buffer = load->second.tma = false;
      fewer = true;
    }
  if (fewer && channels_) channels_ = PlanChannels(in_, plan_, needs_);
}

// Columns [first, first + width) of a tile of `layout` that leads to the store.
ValueId Emitter::Slice(OpId store, ValueId v, const Layout& layout, int64_t first, int64_t width) {
  if (const auto made = slices_.find({v, first}); made != slices_.end()) return made->second;
  const Value& value = in_.values[v];
  std::vector<int64_t> shape = Squeezed(value.type.shape);
  shape.back() = width;
  const Type type = Type::Tile(value.type.dtype, shape, out_.Intern(ColumnsLayout(layout, width)));
  ValueId slice;
  if (value.def.valid() && sliced_[store].count(value.def)) {
    const Op op = in_.ops[value.def];
    const Span here = b_.span();
    if (op.kind == OpKind::kLoad) {
      slice = LoadSlice(op, type, layout, first);
    } else if (op.kind == OpKind::kReshape) {
      slice = Slice(store, op.operands[0], layout, first, width);
    } else if (op.kind == OpKind::kBroadcast) {
      const std::vector<int> keep = KeptDims(op);
      const Layout part = KeepDims(layout, keep);
      const ValueId from = keep.empty() ? Tile(op.operands[0])
                           : keep.back() == layout.rank - 1
                               ? Slice(store, op.operands[0], part, first, width)
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
        operands.push_back(Slice(store, operand, layout, first, width));
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
  const int64_t width = SliceWidth(id), columns = in_.type(value).shape[1];
  const Layout layout = ColumnsLayout(plan_.layouts.at(value), width);
  const Access access = WarpAccess(op, value, &plan_.layouts.at(value), true);
  for (int64_t first = 0; first < columns; first += width) {
    const ValueId tile = Slice(id, value, plan_.layouts.at(value), first, width);
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
  slices_.clear();
}

}  // namespace tilec::ir
