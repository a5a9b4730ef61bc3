// Addresses and predicates of tiles in global memory: parts that are uniform or a thread's own are
// made once, those of registers where they are used.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "backend/access.h"
#include "ir/arms.h"
#include "ir/queries.h"

namespace tilec::backend {

namespace {

// Does its role only serve those that multiply? It has few registers, and of bounds a thread keeps
// one number for each dim, not one for each row.
bool Serves(const ir::Function& fn, const ir::Op& op) {
  const auto is_product = [&](ir::OpId id) { return fn.ops[id].kind == ir::OpKind::kMma; };
  ir::OpId role = fn.blocks[op.block].parent;
  while (role.valid() && fn.ops[role].kind != ir::OpKind::kRole) role = ir::ParentOf(fn, role);
  if (!role.valid()) return false;
  const std::vector<ir::OpId> own = ir::OpsInside(fn, role), all = ir::OpsInOrder(fn);
  return std::none_of(own.begin(), own.end(), is_product) &&
         std::any_of(all.begin(), all.end(), is_product);
}

}  // namespace

Emitter::Access Emitter::MakeAccess(const ir::Op& op, ir::ValueId tile, size_t first_index,
                                    bool has_end) {
  const ir::ValueId tensor = op.operands[0];
  const TensorView& view = tensors_.at(tensor.index);
  const ir::Type& type = fn_.type(tile);
  const int64_t bytes = ir::ByteSize(type.dtype);
  const std::string& modes = op.s("modes");
  const std::vector<int64_t>& sizes = op.ints("sizes");
  const ThreadPart* part = type.shape.empty() ? nullptr : &Part(type.layout);
  const std::vector<int64_t> extents =
      part ? fn_.layouts[type.layout].Extent() : std::vector<int64_t>();
  Access access;
  llvm::Value* uniform = I64(0);
  llvm::Value* thread = I64(0);
  size_t operand = first_index;
  int tile_dim = 0, gathered = 0;
  std::vector<Access::Box> box;
  auto wide = [&](ir::ValueId v) { return b_.CreateSExtOrTrunc(Scalar(v), b_.getInt64Ty()); };
  for (size_t d = 0; d < modes.size(); ++d) {
    llvm::Value* stride = b_.CreateMul(view.stride[d], I64(bytes));
    const ir::ValueId index = op.operands[operand++];
    if (modes[d] == 's') {
      llvm::Value* position = wide(index);
      uniform = b_.CreateAdd(uniform, b_.CreateMul(position, stride));
      // One unsigned comparison covers both ends: extents are not negative.
      access.always = And(access.always, b_.CreateICmpULT(position, view.extent[d]));
      continue;
    }
    Access::Dim dim;
    const bool paired = modes[d] == 'p';
    if (modes[d] == 'g') gathered = tile_dim;
    dim.tile_dim = paired ? gathered : tile_dim;
    dim.stride = stride;
    const size_t t = static_cast<size_t>(tile_dim);
    if (paired || modes[d] == 'g') {
      dim.extent = view.extent[d];
      dim.index = &Get(index);
      dim.index_of = Follow(fn_.layout(index), fn_.type(index).shape, fn_.layouts[type.layout],
                            type.shape, {dim.tile_dim});
    } else {
      llvm::Value* start = wide(index);
      llvm::Value* bound = view.extent[d];
      if (has_end) {
        llvm::Value* end = wide(op.operands[operand++]);
        auto *x = llvm::dyn_cast<llvm::ConstantInt>(bound),
             *y = llvm::dyn_cast<llvm::ConstantInt>(end);
        bound = x && y ? I64(std::min(x->getSExtValue(), y->getSExtValue()))
                       : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bound, end);
      }
      if (modes[d] == 'f' || !box.empty()) box.push_back({start, bound, stride, sizes[d]});
      if (modes[d] == 'f') continue;
      if (!box.empty()) {
        dim.coord = part->coord[t];
        dim.box = std::exchange(box, {});
        access.dims.push_back(std::move(dim));
        ++tile_dim;
        continue;
      }
      uniform = b_.CreateAdd(uniform, b_.CreateMul(start, stride));
      dim.coord = part->coord[t];
      dim.coord_max = part->max[t];
      thread =
          b_.CreateAdd(thread, b_.CreateMul(b_.CreateZExt(dim.coord, b_.getInt64Ty()), stride));
      const int64_t most = dim.most = std::min(extents[t], sizes[d]);
      auto clamp = [&](llvm::Value* v) -> llvm::Value* {
        if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(v))
          return I32(std::clamp<int64_t>(constant->getSExtValue(), 0, most));
        v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, I64(most));
        v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, I64(0));
        return b_.CreateTrunc(v, b_.getInt32Ty());
      };
      dim.hi = clamp(b_.CreateSub(bound, start));
      if (!NonNegative(index)) dim.lo = clamp(b_.CreateNeg(start));
      if (Serves(fn_, op) && !llvm::isa<llvm::ConstantInt>(dim.hi)) {
        dim.above = b_.CreateSub(dim.hi, dim.coord);
        if (dim.lo) dim.below = b_.CreateSub(dim.lo, dim.coord);
      }
    }
    access.dims.push_back(std::move(dim));
    if (!paired) ++tile_dim;
  }
  access.address = b_.CreateAdd(b_.CreateAdd(view.base, uniform), thread);
  return access;
}

// Of row `coord` + `at` of a box: where it begins, and whether it is in the tensor and the tile.
std::pair<llvm::Value*, llvm::Value*> Emitter::PlaceInBox(const Access& access, size_t d,
                                                          int64_t at) {
  const std::vector<Access::Box>& box = access.dims[d].box;
  llvm::Value* coord = access.dims[d].coord;
  llvm::Value *rest = b_.CreateAdd(coord, I32(at)), *offset = I64(0), *inside = nullptr;
  for (auto dim = box.rbegin(); dim != box.rend(); ++dim) {
    llvm::Value* own = b_.CreateURem(rest, I32(dim->size));
    rest = b_.CreateUDiv(rest, I32(dim->size));
    llvm::Value* position = b_.CreateAdd(dim->start, b_.CreateZExt(own, b_.getInt64Ty()));
    offset = b_.CreateAdd(offset, b_.CreateMul(position, dim->stride));
    inside = And(inside, b_.CreateAnd(b_.CreateICmpSGE(position, I64(0)),
                                      b_.CreateICmpSLT(position, dim->end)));
  }
  return {offset, And(inside, b_.CreateICmpEQ(rest, I32(0)))};
}

Emitter::MemPlace Emitter::PlaceOf(Access& access, ir::ValueId tile, int64_t reg) {
  const ir::Type& type = fn_.type(tile);
  const std::vector<int64_t> c = fn_.layouts[type.layout].RegCoord(reg);
  MemPlace place{access.address, 0, access.always};
  for (size_t i = 0; i < access.dims.size(); ++i) {
    Access::Dim& dim = access.dims[i];
    if (dim.index) {
      const int source = dim.index_of[static_cast<size_t>(reg)];
      if (source < 0) {
        place.predicate = b_.getFalse();
        return place;
      }
      llvm::Value* index =
          b_.CreateSExt((*dim.index)[static_cast<size_t>(source)], b_.getInt64Ty());
      llvm::Value*& offset = access.offsets[{i, source}];
      llvm::Value*& inside = access.predicates[{i, source}];
      if (!offset) {
        offset = b_.CreateMul(index, dim.stride);
        inside = b_.CreateICmpULT(index, dim.extent);
      }
      place.address = b_.CreateAdd(place.address, offset);
      place.predicate = And(place.predicate, inside);
      continue;
    }
    const int64_t at = c[static_cast<size_t>(dim.tile_dim)];
    if (!dim.box.empty()) {
      llvm::Value*& offset = access.offsets[{i, at}];
      llvm::Value*& inside = access.predicates[{i, at}];
      if (!offset) std::tie(offset, inside) = PlaceInBox(access, i, at);
      place.address = b_.CreateAdd(place.address, offset);
      place.predicate = And(place.predicate, inside);
      continue;
    }
    if (at) {
      if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(dim.stride);
          constant && std::abs(constant->getSExtValue() * at) < (int64_t{1} << 22)) {
        place.offset += constant->getSExtValue() * at;
      } else {
        llvm::Value*& offset = access.offsets[{i, at}];
        if (!offset) offset = b_.CreateMul(dim.stride, I64(at));
        place.address = b_.CreateAdd(place.address, offset);
      }
    }
    // Bounds that are constants decide here; LLVM would see too late that no predicate is needed.
    auto* least = llvm::dyn_cast<llvm::ConstantInt>(dim.hi);
    if (least && !dim.lo && at + dim.coord_max < least->getSExtValue()) continue;
    llvm::Value*& inside = access.predicates[{i, at}];
    if (!inside && dim.above) {
      inside = b_.CreateICmpSGT(dim.above, I32(at));
      if (dim.below) inside = b_.CreateAnd(inside, b_.CreateICmpSLE(dim.below, I32(at)));
    } else if (!inside) {
      inside = b_.CreateICmpSLT(dim.coord, b_.CreateSub(dim.hi, I32(at)));
      if (dim.lo)
        inside = b_.CreateAnd(inside, b_.CreateICmpSGE(dim.coord, b_.CreateSub(dim.lo, I32(at))));
    }
    place.predicate = And(place.predicate, inside);
  }
  // Gathered dims: rows that pad the tile hold any index.
  if (llvm::Value* inside = Inside(tile, reg))
    for (const Access::Dim& dim : access.dims)
      if (dim.index) {
        place.predicate = And(place.predicate, inside);
        break;
      }
  return place;
}

}  // namespace tilec::backend
