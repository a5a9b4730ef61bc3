// Rows that begin at any element (`shifted` of gload): a vector of a thread is made of the two
// aligned vectors that it lies in, by a shift that all vectors of a row have in common. So a row of
// 5613 elements of 16 bits is laid out, loaded and reduced as one of 5616 is.
//
// Nothing outside the tensor is read:
//   1. an aligned vector is loaded only if bytes of the thread's own elements are in it, so it
//      reaches beyond the tensor at the tensor's first or last bytes alone;
//   2. groups of registers that can come there compare with both ends, and what does not fit is
//      loaded element by element. Which groups can is known where the row's end is;
//   3. a piece of a row whose end is not known (in a loop) is loaded so if the row goes on for
//      another vector behind it, else element by element.
// What is read of neighbouring rows is never an element of the tile: it is shifted out, or replaced
// by what fills.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <map>

#include "backend/access.h"
#include "backend/emitter.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;

namespace {
constexpr int64_t kWord = 4;  // bytes
}  // namespace

// Words of two vectors side by side, from byte `skew` (i32, less than one vector) on: one vector.
Regs Emitter::ShiftWords(Regs words, llvm::Value* skew, int64_t element_bytes) {
  const size_t count = words.size() / 2;
  const bool bits = element_bytes < kWord;  // elements begin inside of words
  llvm::Value* word = b_.CreateLShr(skew, 2);
  const size_t needed = count + (bits ? 1 : 0);
  for (size_t step = count / 2; step > 0; step /= 2) {
    llvm::Value* moved =
        b_.CreateICmpNE(b_.CreateAnd(word, I32(static_cast<int64_t>(step))), I32(0));
    Regs next;
    for (size_t i = 0; i < needed + step - 1; ++i)
      next.push_back(b_.CreateSelect(moved, words[i + step], words[i]));
    words = std::move(next);
  }
  words.resize(std::max(needed, size_t{1}));
  if (!bits) return words;
  // Bytes k, k + 1, … of a word and the next, a digit each.
  llvm::Value* bytes =
      b_.CreateAdd(b_.CreateMul(b_.CreateAnd(skew, I32(kWord - 1)), I32(0x1111)), I32(0x3210));
  Regs out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(
        b_.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {}, {words[i], words[i + 1], bytes}));
  return out;
}

// One past the last byte of the tensor, as far as strides are positive: with others it is less.
llvm::Value* Emitter::EndOf(const TensorView& view, int64_t element_bytes) {
  llvm::Value* elements = view.extent.back();
  for (size_t d = 0; d + 1 < view.extent.size(); ++d)
    elements =
        b_.CreateAdd(elements, b_.CreateMul(b_.CreateSub(view.extent[d], I64(1)), view.stride[d]));
  return b_.CreateAdd(view.base, b_.CreateMul(elements, I64(element_bytes)));
}

namespace {
// Do vectors of so many bytes begin at multiples of it, by what is known of the tensor?
bool IsAligned(const ir::Function& fn, const ir::Op& op, int64_t bytes) {
  const ir::Param* p = fn.param(op.operands[0]);
  const std::string& modes = op.s("modes");
  const ir::ValueId start = op.operands[modes.size()];  // one operand for each dim
  const int64_t size = ir::ByteSize(fn.type(op.operands[0]).dtype);
  return p->facts.base_align_bytes % bytes == 0 &&
         (modes.size() == 1 || p->facts.stride_align_bytes % bytes == 0) &&
         ir::AlignOf(fn, start) * size % bytes == 0;
}
}  // namespace

// Where an address lies in aligned vectors; one for all groups that a constant apart.
struct Emitter::ShiftedPlace {
  llvm::Value* first = nullptr;  // i64: the aligned vector that it lies in
  llvm::Value* skew = nullptr;   // i32: bytes behind it; null: none
  llvm::Value* some = nullptr;   // i1: skew is not 0
};

// `goes_on`: the row has another vector behind the tile.
Regs Emitter::LoadShiftedGroups(const ir::Op& op, Access access,
                                const std::vector<std::vector<int>>& groups, llvm::Value* fill,
                                bool goes_on) {
  const ir::ValueId tile = op.results[0];
  const ir::Type& type = fn_.type(tile);
  const ir::Layout& layout = fn_.layouts[type.layout];
  const TensorView& view = tensors_.at(op.operands[0].index);
  const int64_t size = ir::ByteSize(type.dtype);
  const int64_t elements = static_cast<int64_t>(groups[0].size()), bytes = elements * size;
  const bool aligned = IsAligned(fn_, op, bytes);
  const bool begins_aligned = fn_.param(op.operands[0])->facts.base_align_bytes % bytes == 0;
  const Access::Dim& columns = access.dims.back();
  const auto* bound = llvm::dyn_cast<llvm::ConstantInt>(columns.hi);  // of `most` if it goes on
  CHECK(bound && bytes >= kWord, "shifted vectors of a tile whose columns are known");
  const int64_t inside = bound->getSExtValue();
  llvm::Value* end = nullptr;
  std::map<std::pair<llvm::Value*, int64_t>, ShiftedPlace> places;
  const auto place_of = [&](llvm::Value* address, int64_t rest) -> const ShiftedPlace& {
    auto [it, fresh] = places.try_emplace({address, rest});
    ShiftedPlace& place = it->second;
    if (!fresh) return place;
    place.first = rest ? b_.CreateAdd(address, I64(rest)) : address;
    if (aligned) return place;
    place.skew = b_.CreateAnd(b_.CreateTrunc(place.first, b_.getInt32Ty()), I32(bytes - 1));
    place.first = b_.CreateAnd(place.first, I64(-bytes));
    place.some = b_.CreateICmpNE(place.skew, I32(0));
    return place;
  };
  const Regs none(static_cast<size_t>(bytes / kWord), I32(0));
  Regs out(static_cast<size_t>(layout.regs()), fill);
  // The last group, which compares most, comes first: few registers are taken by then.
  for (size_t n = 0; n < groups.size(); ++n) {
    const std::vector<int>& group = groups[n == 0 ? groups.size() - 1 : n - 1];
    const auto [address, offset, when] = PlaceOf(access, tile, group[0]);
    if (when == b_.getFalse()) continue;
    const int64_t whole = offset - (offset & (bytes - 1));
    const ShiftedPlace& place = place_of(address, offset - whole);
    const int64_t at = layout.RegCoord(group[0])[static_cast<size_t>(columns.tile_dim)];
    const bool ends = !goes_on && at + columns.coord_max + 2 * elements > inside;
    const bool begins = !aligned && !begins_aligned && at == 0;
    llvm::Value *here = when, *next = And(when, place.some), *own = nullptr;
    if (ends || begins)  // elements from the group's first on that are the tile's
      own = b_.CreateSub(I32(inside - at), columns.coord);
    if (own && aligned) {
      here = And(here, b_.CreateICmpSGE(own, I32(elements)));
    } else if (own) {  // are they in two vectors, and where do these end?
      llvm::Value* most = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, own, I32(elements));
      llvm::Value* last = b_.CreateAdd(b_.CreateMul(most, I32(size)), place.skew);
      llvm::Value* two = b_.CreateICmpSGT(last, I32(bytes));
      if (!end) end = EndOf(view, size);
      llvm::Value* one = b_.CreateAdd(place.first, I64(whole + bytes));
      llvm::Value* reach = b_.CreateSelect(two, b_.CreateAdd(one, I64(bytes)), one);
      here = And(here, b_.CreateICmpULE(reach, end));
      if (begins)
        here = And(here, b_.CreateICmpUGE(b_.CreateAdd(place.first, I64(whole)), view.base));
      next = And(here, two);
    }
    Regs words = LoadGlobal(place.first, whole, here, none, DType::kU32);
    if (place.skew) {
      const Regs behind = LoadGlobal(place.first, whole + bytes, next, none, DType::kU32);
      words.insert(words.end(), behind.begin(), behind.end());
      words = ShiftWords(std::move(words), place.skew, size);
    }
    Regs loaded = FromMemory(words, type.dtype, group.size());
    for (size_t i = 0; i < group.size(); ++i) {
      llvm::Value* value = loaded[i];
      const auto nth = static_cast<int64_t>(i);
      if (own) {
        // Aligned vectors are the tile's as a whole, or none of them is loaded.
        llvm::Value* mine = And(when, b_.CreateICmpSGT(own, I32(nth)));
        if (!aligned || op.i("has_fill"))
          value = b_.CreateSelect(aligned ? here : mine, value, fill);
        if (!aligned || nth < inside % elements)
          value = LoadGlobal(address, offset + nth * size, b_.CreateAnd(mine, b_.CreateNot(here)),
                             {value}, type.dtype)[0];
      } else if (when && op.i("has_fill")) {
        value = b_.CreateSelect(when, value, fill);
      }
      out[static_cast<size_t>(group[i])] = value;
    }
  }
  return out;
}

Result<void> Emitter::EmitShiftedLoad(const ir::Op& op) {
  const ir::ValueId tile = op.results[0];
  const ir::Type& type = fn_.type(tile);
  const ir::Layout& layout = fn_.layouts[type.layout];
  llvm::Value* fill = op.i("has_fill") ? Scalar(op.operands.back()) : Zero(type.dtype);
  const int64_t size = ir::ByteSize(type.dtype);
  const std::vector<std::vector<int>> groups = VectorsOf(layout, type.shape, op.i("vector"), size);
  const Access access = MakeAccess(op, tile, 1, false);
  const auto one_by_one = [&](Access from) {
    Regs out;
    for (int64_t r = 0; r < layout.regs(); ++r) {
      const auto [address, offset, when] = PlaceOf(from, tile, r);
      out.push_back(
          when == b_.getFalse() ? fill : LoadGlobal(address, offset, when, {fill}, type.dtype)[0]);
    }
    return out;
  };
  const Access::Dim& columns = access.dims.back();
  if (static_cast<int64_t>(groups[0].size()) * size < kWord) {
    Set(tile, one_by_one(access));
    return Done();
  }
  if (llvm::isa<llvm::ConstantInt>(columns.hi) && !columns.lo) {
    Set(tile, LoadShiftedGroups(op, access, groups, fill, false));
    return Done();
  }
  const ir::ValueId start = op.operands[op.s("modes").size()];  // one operand for each dim
  llvm::Value* first = b_.CreateSExtOrTrunc(Scalar(start), b_.getInt64Ty());
  llvm::Value* left = b_.CreateSub(tensors_.at(op.operands[0].index).extent.back(), first);
  const int64_t needed = columns.most + static_cast<int64_t>(groups[0].size());
  llvm::Value* goes_on = b_.CreateICmpSGE(left, I64(needed));
  if (columns.lo) goes_on = b_.CreateAnd(goes_on, b_.CreateICmpSGE(first, I64(0)));
  const auto inside = [&] {
    Access from = access;
    from.dims.back().hi = I32(from.dims.back().most);
    from.dims.back().lo = nullptr;
    return LoadShiftedGroups(op, std::move(from), groups, fill, true);
  };
  Set(tile, InsideOrEdge(goes_on, type, inside, [&] { return one_by_one(access); }));
  return Done();
}

}  // namespace tilec::backend
