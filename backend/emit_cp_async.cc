// Copies by threads (cp.async): a tile of a tensor into its buffer, while other warps compute.
//
// Lanes side by side copy neighbouring chunks of a panel's row, so that a row of 128 bytes is one
// request; all threads of the role together copy so many rows at once, and then the rows that far
// below. What is outside of the tensor reads no byte: the copy writes zeros.
//
// An address in shared memory is a part that the lane decides, of which there are as many as the
// swizzle tells rows apart, and a constant; in global memory one pointer for each step of rows, and
// a constant for each panel.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <llvm/IR/Intrinsics.h>

#include <map>

#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

namespace {
constexpr int64_t kPatternRows = 8;  // after so many rows every swizzle begins again
}

// Of the thread's first chunk: where it is read, and what of the tile lies inside of the tensor.
struct Emitter::CopyPlace {
  struct Range {
    int64_t size = 0;               // of the tile
    llvm::Value* stride = nullptr;  // i64, bytes
    llvm::Value* hi = nullptr;      // i32: coordinates of the tile from here on are outside
    llvm::Value* lo = nullptr;      // … and below this one; null: none
  };
  Range rows, cols;
  llvm::Value* source = nullptr;  // i64: the tile's first element
  llvm::Value* always = nullptr;  // whether the single positions are inside; null: they are
};

Emitter::CopyPlace Emitter::PlaceOfCopy(const ir::Op& op) {
  const TensorView& view = tensors_.at(op.operands[0].index);
  const int64_t bytes = ir::ByteSize(fn_.type(op.operands[1]).dtype);
  const std::string& modes = op.s("modes");
  CopyPlace out;
  out.source = view.base;
  bool first = true;
  for (size_t d = 0; d < modes.size(); ++d) {
    const ir::ValueId index = op.operands[2 + d];
    llvm::Value* at = b_.CreateSExtOrTrunc(Scalar(index), b_.getInt64Ty());
    llvm::Value* stride = b_.CreateMul(view.stride[d], I64(bytes));
    out.source = b_.CreateAdd(out.source, b_.CreateMul(at, stride));
    if (modes[d] == 's') {
      // One unsigned comparison covers both ends: extents are not negative.
      out.always = And(out.always, b_.CreateICmpULT(at, view.extent[d]));
      continue;
    }
    CopyPlace::Range& range = first ? out.rows : out.cols;
    first = false;
    range.size = op.ints("sizes")[d];
    range.stride = stride;
    const auto clamp = [&](llvm::Value* v) {
      v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, I64(range.size));
      v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, I64(0));
      return b_.CreateTrunc(v, b_.getInt32Ty());
    };
    range.hi = clamp(b_.CreateSub(view.extent[d], at));
    if (!NonNegative(index)) range.lo = clamp(b_.CreateNeg(at));
  }
  return out;
}

Result<void> Emitter::EmitCpLoad(const ir::Op& op) {
  const size_t slot = op.operands.size() - (op.i("slotted") ? 1 : 0);
  const PanelView view = View(op.operands[1], SlotAddress(op, 1, slot));
  const CopyPlace place = PlaceOfCopy(op);
  const int64_t bytes = op.i("bytes"), threads = int64_t{32} * role_.warps;
  const int64_t per_row = view.pitch / bytes, step = threads / per_row;
  const int64_t panels = CeilDiv(place.cols.size, view.panel_cols);
  CHECK(per_row * step == threads, "chunks of a panel's row and threads");
  llvm::Value* row = b_.CreateUDiv(role_.thread, I32(per_row));
  llvm::Value* chunk = b_.CreateURem(role_.thread, I32(per_row));
  llvm::Value* col_bytes = b_.CreateMul(chunk, I32(bytes));
  const auto inside = [&](const CopyPlace::Range& range, llvm::Value* at) {
    llvm::Value* ok = b_.CreateICmpSLT(at, range.hi);
    return range.lo ? b_.CreateAnd(ok, b_.CreateICmpSGE(at, range.lo)) : ok;
  };
  std::vector<llvm::Value*> col_inside;
  for (int64_t p = 0; p < panels; ++p)
    col_inside.push_back(inside(
        place.cols,
        b_.CreateAdd(b_.CreateUDiv(col_bytes, I32(view.element_bytes)), I32(p * view.panel_cols))));
  llvm::Value* source = b_.CreateAdd(place.source, b_.CreateZExt(col_bytes, b_.getInt64Ty()));
  source =
      b_.CreateAdd(source, b_.CreateMul(b_.CreateZExt(row, b_.getInt64Ty()), place.rows.stride));
  llvm::Value* down = b_.CreateMul(place.rows.stride, I64(step));
  std::map<int64_t, llvm::Value*> lanes;  // by rows modulo the pattern
  for (int64_t above = 0; above < place.rows.size; above += step) {
    llvm::Value*& lane = lanes[above % kPatternRows];
    if (!lane) {
      llvm::Value* own = b_.CreateMul(row, I32(view.pitch));
      llvm::Value* swizzle = SwizzleBits(view, b_.CreateAdd(row, I32(above % kPatternRows)));
      lane = b_.CreateAdd(view.base, b_.CreateAdd(own, b_.CreateXor(col_bytes, swizzle)));
    }
    llvm::Value* at = b_.CreateAdd(row, I32(above));
    llvm::Value* row_inside = And(place.always, inside(place.rows, at));
    // Threads beyond the tile's last row have nothing to fill.
    const bool all = above + step <= place.rows.size;
    llvm::Value* mine = all ? nullptr : b_.CreateICmpSLT(at, I32(place.rows.size));
    for (int64_t p = 0; p < panels; ++p) {
      llvm::Value* read = b_.CreateSelect(
          b_.CreateAnd(row_inside, col_inside[static_cast<size_t>(p)]), I32(bytes), I32(0));
      std::vector<llvm::Value*> args = {lane, source, read};
      if (mine) args.push_back(mine);
      CallPtx(b_, PtxInst::kCpAsync,
              {{"p", mine ? "@$3 " : ""},
               {"cache", bytes == 16 ? "cg" : "ca"},
               {"hint", bytes == 16 ? ".L2::128B" : ""},
               {"to", std::to_string(above * view.pitch + p * view.panel_bytes)},
               {"from", std::to_string(p * view.pitch)},
               {"bytes", std::to_string(bytes)}},
              mine ? "r,l,r,b" : "r,l,r", args);
    }
    source = b_.CreateAdd(source, down);
  }
  return Done();
}

}  // namespace tilec::backend
