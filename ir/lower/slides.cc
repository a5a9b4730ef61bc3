// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/slides.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "ir/isa.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

class Slides {
 public:
  explicit Slides(const Function& fn) : fn_(fn) {}

  std::optional<Slide> Find() {
    NoteParts();
    for (OpId id : OpsInOrder(fn_)) {
      const Op& op = fn_.ops[id];
      if (!Tiles(op) || !Keeps(op)) return std::nullopt;
      if ((op.kind == OpKind::kLoad || op.kind == OpKind::kStore) && !Access(op))
        return std::nullopt;
      turns_ = turns_ || (op.kind == OpKind::kStore && InLoop(fn_, id));
    }
    if (!slide_.row.valid() || !stores_ || !turns_) return std::nullopt;
    return slide_;
  }

 private:
  // Are all tiles that it has one number, or of a row?
  bool Tiles(const Op& op) {
    const auto fits = [&](ValueId v) {
      const Type& type = fn_.type(v);
      if (!type.is_tile() || type.elements() == 1 || parts_.count(type.shape) > 0) return true;
      if (slide_.tile == 0) slide_.tile = type.shape.back();
      return type.shape.back() == slide_.tile && type.elements() == slide_.tile;
    };
    return std::all_of(op.operands.begin(), op.operands.end(), fits) &&
           std::all_of(op.results.begin(), op.results.end(), fits);
  }

  // What threads have of a piece, whichever elements that are, in the shapes that
  // ir/passes/own_parts.cc gives it. All of it is reduced to one number in the end.
  void NoteParts() {
    for (OpId id : OpsInOrder(fn_)) {
      const Op& op = fn_.ops[id];
      if (!IsInAnyOrder(op)) continue;
      const std::vector<int64_t>& shape = fn_.type(op.results[0]).shape;
      parts_.insert({shape, {1, shape[1], shape[2]}, {1, shape[2]}});
    }
  }

  // Does it compute the same, in whatever order a row's elements are?
  bool Keeps(const Op& op) const {
    if (Info(op.kind).elementwise() || IsInAnyOrder(op)) return true;
    if (op.kind == OpKind::kIota && parts_.count(fn_.type(op.results[0]).shape) > 0) return false;
    constexpr OpKind kKeep[] = {
        OpKind::kConstant,  OpKind::kIota,  // which is told (Emitter::Iota_)
        OpKind::kBroadcast, OpKind::kReshape, OpKind::kReduce,   OpKind::kClusterReduce,
        OpKind::kLoad,      OpKind::kStore,   OpKind::kParallel, OpKind::kFor,
        OpKind::kIf,        OpKind::kYield};
    if (std::find(std::begin(kKeep), std::end(kKeep), op.kind) != std::end(kKeep)) return true;
    const auto scalar = [&](ValueId v) {
      return !fn_.type(v).is_tile() || fn_.type(v).elements() == 1;
    };
    return op.regions.empty() && std::all_of(op.operands.begin(), op.operands.end(), scalar) &&
           std::all_of(op.results.begin(), op.results.end(), scalar);
  }

  bool Access(const Op& op) {
    const bool store = op.kind == OpKind::kStore;
    const Type& tile = fn_.type(store ? op.operands[1] : op.results[0]);
    if (!tile.is_tile() || tile.elements() == 1) return true;
    const Param* p = fn_.param(op.operands[0]);
    const Type& tensor = fn_.type(op.operands[0]);
    const std::string& modes = op.s("modes");
    const int64_t size = ByteSize(tensor.dtype);
    if (!p || p->direction != (store ? Direction::kOut : Direction::kIn) ||
        tensor.dtype == DType::kBool || (size != 2 && size != 4) || modes.back() != 'r' ||
        tensor.rank() > 2 || (store && tensor.rank() != 2))
      return false;
    const TensorFacts& facts = p->facts;
    const Expr& columns = p->dims.back();
    if (!facts.last_contiguous || facts.base_align_bytes % kAccessBytes != 0 ||
        !columns.is_const() || columns.value < 1)
      return false;
    if (slide_.columns == 0) slide_.columns = columns.value;
    const size_t start = op.operands.size() - (store ? 2 : op.i("has_fill") ? 2 : 1);
    const ValueId from = op.operands[start];
    if (columns.value != slide_.columns || op.ints("sizes").back() != slide_.tile ||
        slide_.tile % kSlide != 0 || AlignOf(fn_, from) % kSlide != 0 || !NonNegative(fn_, from))
      return false;
    if (tensor.rank() == 1) return true;
    // Rows that stand side by side, at no multiples of 16 bytes.
    const int64_t pitch = columns.value * size, apart = pitch & -pitch;
    const ValueId row = op.operands[store ? 2 : 1];
    if (apart >= kAccessBytes || facts.stride_align_bytes > apart || IsGathered(modes[0]) ||
        !fn_.type(row).is_scalar() || op.ints("sizes")[0] != 1)
      return false;
    if (!slide_.row.valid()) slide_.row = row;
    stores_ = stores_ || store;
    return row == slide_.row;
  }

  const Function& fn_;
  Slide slide_;
  std::set<std::vector<int64_t>> parts_;  // shapes of what threads have of a piece
  bool stores_ = false;
  bool turns_ = false;
};

}  // namespace

bool IsInAnyOrder(const Op& op) {
  if (op.kind != OpKind::kRearrange) return false;
  const std::vector<int64_t>& strides = op.ints("strides");  // none: one element is taken
  return !strides.empty() && strides.front() == kAnyOrder;
}

std::optional<Slide> SlideOf(const Function& fn) {
  return fn.level == Level::kTile ? Slides(fn).Find() : std::nullopt;
}

bool BeginsAnywhere(const Function& fn, const Op& access) {
  if (access.kind != OpKind::kLoad && access.kind != OpKind::kStore) return false;
  const Param* p = fn.param(access.operands[0]);
  if (!p || p->dims.size() < 2 || !p->facts.last_contiguous) return false;
  const Expr& row = p->dims.back();
  return row.is_const() &&
         row.value * ByteSize(fn.type(access.operands[0]).dtype) % kAccessBytes != 0;
}

}  // namespace tilec::ir
