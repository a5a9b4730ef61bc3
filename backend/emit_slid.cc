// Tiles of rows that slide (`shifted` = 2 of gload and gstore, ir/lower/slides.h): place p of the
// tile holds column start + p of the row, and places below off = −start mod 8, which are in front
// of the tile's piece of the row, hold its last columns, start + N + p.
//
// Where the row begins as far from an aligned vector as was reckoned, a vector of a thread is one
// in memory. The tile's first places and the last of a row that ends in a vector are accessed
// element by element, behind a branch that few warps take. Vectors that all rows share (tensors of
// one dim) begin at multiples of 16 bytes: of them a vector is made of two aligned ones, by a shift
// that is the same for all (emit_shifted.cc). Nothing outside of a tensor is read: an aligned
// vector is loaded only where all of it, or of two all elements up to the second's end, are in the
// row.
//
// Rows that lie otherwise, further apart than they are long, are accessed element by element.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "backend/access.h"
#include "backend/emitter.h"
#include "backend/ptx_asm.h"
#include "ir/lower/slides.h"
#include "ir/queries.h"

namespace tilec::backend {

struct Emitter::SlidPlace {
  ir::ValueId tile;
  ir::DType dtype = ir::DType::kF32;
  int64_t size = 4;                // bytes of an element
  int64_t columns = 0;             // of the tile
  int64_t slack = 0;               // elements behind a vector that must be in the row, too
  llvm::Value* address = nullptr;  // i64: of the thread's place of register 0, unwrapped
  llvm::Value* coord = nullptr;    // i32: that place
  int64_t coord_max = 0;
  llvm::Value* off = nullptr;      // i32: places below hold the last columns
  llvm::Value* inside = nullptr;   // i32: places from here on are behind the row
  llvm::Value* wrapped = nullptr;  // i32: the same of places below off
  llvm::Value* left = nullptr;     // i64: columns of the row from place 0 on
  llvm::Value* always = nullptr;   // i1, null: true
  llvm::Value* skew = nullptr;     // i32, bytes: of vectors that all rows share
  bool turns = true;               // may places below off hold anything?
  bool straight = false;           // its start is known: no branches, all tiles are alive
  std::vector<Regs> words;         // what is stored, by group
  const ir::Layout* layout = nullptr;
};

Emitter::SlidPlace Emitter::PlaceOfSlid(const ir::Op& op, ir::ValueId tile) {
  const bool store = op.kind == ir::OpKind::kGStore;
  const ir::Type& type = fn_.type(tile);
  const Access access = MakeAccess(op, tile, store ? 2 : 1, store);
  const TensorView& view = tensors_.at(op.operands[0].index);
  const auto wide = [&](ir::ValueId v) { return b_.CreateSExtOrTrunc(Scalar(v), b_.getInt64Ty()); };
  SlidPlace place;
  place.tile = tile;
  place.dtype = type.dtype;
  place.size = ir::ByteSize(type.dtype);
  place.columns = op.ints("sizes").back();
  place.address = access.address;
  place.coord = access.dims.back().coord;
  place.coord_max = access.dims.back().coord_max;
  place.always = access.always;
  place.layout = &fn_.layouts[type.layout];
  const size_t behind = store ? 2 : op.i("has_fill") ? 2 : 1;
  llvm::Value* start = wide(op.operands[op.operands.size() - behind]);
  llvm::Value* bound = view.extent.back();
  if (store)
    bound = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bound, wide(op.operands.back()));
  place.left = b_.CreateSub(bound, start);
  const auto clamp = [&](llvm::Value* v, int64_t most) {
    v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, I64(most));
    v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, I64(0));
    return b_.CreateTrunc(v, b_.getInt32Ty());
  };
  place.off =
      b_.CreateAnd(b_.CreateTrunc(b_.CreateNeg(start), b_.getInt32Ty()), I32(ir::kSlide - 1));
  place.inside = clamp(place.left, place.columns + ir::kSlide);
  place.wrapped = clamp(b_.CreateSub(place.left, I64(place.columns)), ir::kSlide);
  return place;
}

// May a vector of so many elements, from register `reg` on, be accessed as one? All of it, and what
// is needed behind it, lies in the row and in the tile. Null: yes, if the row is in the tensor.
// `least`: what is known of `inside`.
llvm::Value* Emitter::SlidWhole(const SlidPlace& place, int64_t reg, int64_t elements,
                                int64_t least) {
  const int64_t at = place.layout->RegCoord(reg)[0], needed = at + elements + place.slack;
  llvm::Value* whole = Inside(place.tile, reg);
  if (at < ir::kSlide)
    whole = And(whole, b_.CreateICmpSGE(place.coord, b_.CreateSub(place.off, I32(at))));
  if (place.coord_max + needed > least)
    whole = And(whole, b_.CreateICmpSLE(place.coord, b_.CreateSub(place.inside, I32(needed))));
  return whole;
}

// The element `at` behind the thread's place: how far its address is from the thread's (i64,
// bytes), and whether it is in the row.
std::pair<llvm::Value*, llvm::Value*> Emitter::SlidElement(const SlidPlace& place, int64_t at) {
  llvm::Value* own = b_.CreateAdd(place.coord, I32(at));
  llvm::Value* offset = I64(at * place.size);
  llvm::Value* inside =
      b_.CreateAnd(b_.CreateICmpSLT(own, place.inside), b_.CreateICmpSLT(own, I32(place.columns)));
  if (at < ir::kSlide && !place.turns) {
    inside = b_.CreateAnd(inside, b_.CreateICmpSGE(own, place.off));
  } else if (at < ir::kSlide) {
    llvm::Value* turned = b_.CreateICmpSLT(own, place.off);
    offset = b_.CreateSelect(turned, I64((at + place.columns) * place.size), offset);
    inside = b_.CreateSelect(turned, b_.CreateICmpSLT(own, place.wrapped), inside);
  }
  return {b_.CreateAdd(place.address, offset), And(place.always, inside)};
}

namespace {
// Vectors first, then what is left of each: more loads are on their way together.
struct Edge {
  const std::vector<int>* group = nullptr;
  llvm::Value* whole = nullptr;
};
}  // namespace

Regs Emitter::LoadSlidGroups(const SlidPlace& place, const std::vector<std::vector<int>>& groups,
                             llvm::Value* fill, int64_t least, llvm::Value* aligned) {
  Regs out(static_cast<size_t>(place.layout->regs()), fill);
  const auto elements = static_cast<int64_t>(groups[0].size());
  const int64_t bytes = elements * place.size;
  const bool vectors = bytes >= 4 && aligned != b_.getFalse();
  const auto* zero = llvm::dyn_cast<llvm::Constant>(fill);
  const bool filled = !zero || !zero->isNullValue();  // a vector that is not loaded is zero
  llvm::Value *first = place.address, *some = nullptr;
  if (place.skew) {
    first = b_.CreateSub(first, b_.CreateZExt(place.skew, b_.getInt64Ty()));
    some = b_.CreateICmpNE(place.skew, I32(0));
  }
  std::vector<Edge> edges;
  for (const std::vector<int>& group : groups) {
    llvm::Value* whole =
        vectors ? And(aligned, SlidWhole(place, group[0], elements, least)) : b_.getFalse();
    const int64_t offset = place.layout->RegCoord(group[0])[0] * place.size;
    if (vectors) {
      llvm::Value* when = And(place.always, whole);
      const Regs none(static_cast<size_t>(bytes / 4), I32(0));
      Regs loaded;
      if (place.skew) {
        Regs words = LoadGlobal(first, offset, when, none, ir::DType::kU32);
        const Regs next = LoadGlobal(first, offset + bytes, And(when, some), none, ir::DType::kU32);
        words.insert(words.end(), next.begin(), next.end());
        loaded = FromMemory(ShiftWords(std::move(words), place.skew, place.size), place.dtype,
                            group.size());
        for (llvm::Value*& value : loaded)
          if (filled && place.always) value = b_.CreateSelect(place.always, value, fill);
      } else {
        loaded = LoadGlobal(first, offset, when, Regs(group.size(), fill), place.dtype);
      }
      for (size_t i = 0; i < group.size(); ++i) out[static_cast<size_t>(group[i])] = loaded[i];
    }
    if (whole) edges.push_back({&group, whole});
  }
  for (const Edge& edge : edges) {
    const std::vector<int>& group = *edge.group;
    if (place.straight) {
      llvm::Value* single = b_.CreateNot(edge.whole);
      for (int r : group) {
        llvm::Value*& value = out[static_cast<size_t>(r)];
        if (edge.whole == b_.getFalse())
          value = fill;
        else if (filled && place.skew)
          value = b_.CreateSelect(edge.whole, value, fill);
        const auto [address, inside] = SlidElement(place, place.layout->RegCoord(r)[0]);
        value = LoadGlobal(address, 0, b_.CreateAnd(single, inside), {value}, place.dtype)[0];
      }
      continue;
    }
    Regs now;
    for (int r : group) now.push_back(out[static_cast<size_t>(r)]);
    llvm::BasicBlock *one = NewBlock("slid.edge"), *end = NewBlock("slid.loaded");
    const Regs before = Pack(now, place.dtype);
    llvm::BasicBlock* from = b_.GetInsertBlock();
    b_.CreateCondBr(edge.whole, end, one);
    b_.SetInsertPoint(one);
    Regs single;
    for (int r : group) {
      const auto [address, inside] = SlidElement(place, place.layout->RegCoord(r)[0]);
      single.push_back(LoadGlobal(address, 0, inside, {fill}, place.dtype)[0]);
    }
    const Regs after = Pack(single, place.dtype);
    llvm::BasicBlock* slow = b_.GetInsertBlock();
    b_.CreateBr(end);
    b_.SetInsertPoint(end);
    Regs words;
    for (size_t i = 0; i < before.size(); ++i) {
      llvm::PHINode* phi = b_.CreatePHI(before[i]->getType(), 2);
      phi->addIncoming(before[i], from);
      phi->addIncoming(after[i], slow);
      words.push_back(phi);
    }
    const Regs elements_now = Unpack(words, place.dtype, group.size());
    for (size_t i = 0; i < group.size(); ++i) out[static_cast<size_t>(group[i])] = elements_now[i];
  }
  return out;
}

void Emitter::StoreSlidGroups(const SlidPlace& place, const std::vector<std::vector<int>>& groups,
                              int64_t least, llvm::Value* aligned) {
  std::vector<Edge> edges;
  for (const std::vector<int>& group : groups) {
    const auto elements = static_cast<int64_t>(group.size());
    llvm::Value* whole = elements * place.size < 4
                             ? b_.getFalse()
                             : And(aligned, SlidWhole(place, group[0], elements, least));
    const int64_t offset = place.layout->RegCoord(group[0])[0] * place.size;
    StoreGlobal(place.address, offset, And(place.always, whole),
                place.words[&group - groups.data()], ir::DType::kU32);
    if (whole) edges.push_back({&group, whole});
  }
  for (const Edge& edge : edges) {
    llvm::BasicBlock *one = NewBlock("slid.edge"), *end = NewBlock("slid.stored");
    b_.CreateCondBr(edge.whole, end, one);
    b_.SetInsertPoint(one);
    const Regs elements =
        FromMemory(place.words[edge.group - groups.data()], place.dtype, edge.group->size());
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto [address, inside] =
          SlidElement(place, place.layout->RegCoord((*edge.group)[i])[0]);
      StoreGlobal(address, 0, inside, {elements[i]}, place.dtype);
    }
    b_.CreateBr(end);
    b_.SetInsertPoint(end);
  }
}

namespace {
// What the row has at least from place 0 on, if its start is a number less what it slides by.
int64_t LeastInside(const ir::Function& fn, const ir::Op& op) {
  const bool store = op.kind == ir::OpKind::kGStore;
  const size_t behind = store ? 2 : op.i("has_fill") ? 2 : 1;
  const ir::Op* start = fn.def(op.operands[op.operands.size() - behind]);
  const Expr& extent = fn.param(op.operands[0])->dims.back();
  if (!start || start->kind != ir::OpKind::kSub || !extent.is_const()) return 0;
  const int64_t* from = ir::IntConstantOf(fn, start->operands[0]);
  const int64_t* end = store ? ir::IntConstantOf(fn, op.operands.back()) : nullptr;
  if (!from || (store && !end)) return 0;
  return (end ? std::min(*end, extent.value) : extent.value) - *from;
}
}  // namespace

Result<void> Emitter::EmitSlidLoad(const ir::Op& op) {
  const ir::ValueId tile = op.results[0];
  const ir::Type& type = fn_.type(tile);
  SlidPlace place = PlaceOfSlid(op, tile);
  llvm::Value* fill = op.i("has_fill") ? Scalar(op.operands.back()) : Zero(type.dtype);
  const std::vector<std::vector<int>> groups =
      VectorsOf(*place.layout, type.shape, op.i("vector"), place.size);
  const auto elements = static_cast<int64_t>(groups[0].size());
  const int64_t bytes = elements * place.size;
  const int64_t least = LeastInside(fn_, op);
  place.turns = least == 0 || least > place.columns - ir::kSlide;
  place.straight = !place.turns;
  if (op.s("modes").size() == 1) {
    const size_t behind = op.i("has_fill") ? 2 : 1;
    llvm::Value* from = Scalar(op.operands[op.operands.size() - behind]);
    place.skew = b_.CreateAnd(
        b_.CreateMul(b_.CreateSExtOrTrunc(from, b_.getInt32Ty()), I32(place.size)), I32(bytes - 1));
    place.slack = elements - 1;
    if (elements == 1) place.skew = nullptr;
  }
  // In a loop: the row goes on behind the tile.
  llvm::Value* fast = nullptr;
  int64_t known = least;
  if (least == 0) {
    known = place.columns + place.slack;
    fast = b_.CreateICmpSGE(place.left, I64(known));
  }
  llvm::Value* aligned = nullptr;
  if (!place.skew && op.s("modes").size() > 1 && bytes > place.size)
    aligned = b_.CreateICmpEQ(
        b_.CreateAnd(b_.CreateTrunc(place.address, b_.getInt32Ty()), I32(bytes - 1)), I32(0));
  fast = And(fast, aligned);
  if (!fast) {
    Set(tile, LoadSlidGroups(place, groups, fill, known, nullptr));
    return Done();
  }
  const auto beside = [&] {
    return LoadSlidGroups(place, groups, fill, 0, least > 0 ? b_.getFalse() : aligned);
  };
  Set(tile,
      InsideOrEdge(
          fast, type, [&] { return LoadSlidGroups(place, groups, fill, known, nullptr); }, beside));
  return Done();
}

Result<void> Emitter::EmitSlidStore(const ir::Op& op) {
  const ir::ValueId tile = op.operands[1];
  const ir::Type& type = fn_.type(tile);
  SlidPlace place = PlaceOfSlid(op, tile);
  place.always = And(place.always, Part(type.layout).first_replica);
  const std::vector<std::vector<int>> groups =
      VectorsOf(*place.layout, type.shape, op.i("vector"), place.size);
  const int64_t bytes = static_cast<int64_t>(groups[0].size()) * place.size;
  // As words, which are alive in front of the branches in place of their elements.
  const Regs& regs = Get(tile);
  for (const std::vector<int>& group : groups) {
    Regs elements;
    for (int r : group) elements.push_back(regs[static_cast<size_t>(r)]);
    place.words.push_back(ToMemory(elements, place.dtype));
    for (llvm::Value*& word : place.words.back())
      if (place.size < 4 && word->getType()->isIntegerTy(32))
        word = CallPtx(b_, PtxInst::kPin32, {word});
  }
  int64_t known = LeastInside(fn_, op);
  llvm::Value* fast = nullptr;
  if (known == 0) {
    known = place.columns;
    fast = b_.CreateICmpSGE(place.left, I64(known));
  }
  llvm::Value* aligned = nullptr;
  if (bytes > place.size)
    aligned = b_.CreateICmpEQ(
        b_.CreateAnd(b_.CreateTrunc(place.address, b_.getInt32Ty()), I32(bytes - 1)), I32(0));
  fast = And(fast, aligned);
  if (!fast) {
    StoreSlidGroups(place, groups, known, nullptr);
    return Done();
  }
  llvm::BasicBlock *here = NewBlock("slid.whole"), *beside = NewBlock("slid.apart"),
                   *end = NewBlock("slid.done");
  b_.CreateCondBr(fast, here, beside);
  b_.SetInsertPoint(beside);
  StoreSlidGroups(place, groups, 0, aligned);
  b_.CreateBr(end);
  b_.SetInsertPoint(here);
  StoreSlidGroups(place, groups, known, nullptr);
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  return Done();
}

}  // namespace tilec::backend
