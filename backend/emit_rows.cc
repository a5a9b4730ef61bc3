// Whole rows of a tensor as one run (ir/row_run.h): threads move it 16 bytes at a time between the
// tensor and shared memory, in the order of memory, and have it from there as their layout wants.
//
// In shared memory the run lies as far from a multiple of 16 bytes as in the tensor (`skew`), so
// that what is aligned there is aligned here. Loads take whole vectors, the first from up to 15
// bytes before the run, which are the tensor's, too; elements behind the last whole vector come one
// by one. Stores write whole vectors, and what is left at either end one by one.
//
// A store that is `shifted` writes its row from a multiple of 16 bytes on, in the vectors that
// threads have, and shifts it on the way out (emit_shifted.cc).
//
// Rows that do not stand side by side (a part of a wider tensor) are moved element by element.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <map>

#include "backend/emitter.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"
#include "ir/row_run.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;

namespace {
constexpr int64_t kVector = 16;      // bytes
constexpr int64_t kAtOnce = 8;       // vectors of a thread in flight together
constexpr int64_t kAll = 1ll << 30;  // columns of a view's only panel
int64_t PowerOf(int64_t n) { return n & -n; }
}  // namespace

struct Emitter::RowPlace {
  ir::RowRun run;
  DType dtype = DType::kF32;
  int64_t bytes = 4;               // of an element
  int64_t align = 1;               // of the run's start, bytes, as far as that is known
  llvm::Value* start = nullptr;    // i64: address of the first element
  llvm::Value* pitch = nullptr;    // i64, bytes from row to row; null: one row
  llvm::Value* dense = nullptr;    // i1: rows stand side by side; null: they do
  llvm::Value* inside = nullptr;   // i32: rows inside of the tensor; of one row columns
  llvm::Value* skew = nullptr;     // i32, bytes
  llvm::Value* end = nullptr;      // i32: skew and the bytes inside
  llvm::Value* scratch = nullptr;  // i32: address in shared memory
  bool shifted = false;            // there the run begins at a multiple of 16 bytes
};

Emitter::RowPlace Emitter::PlaceOfRows(const ir::Op& op) {
  const bool store = op.kind == ir::OpKind::kGStore;
  const TensorView& view = tensors_.at(op.operands[0].index);
  const std::string& modes = op.s("modes");
  RowPlace place;
  place.run = *ir::RowRunOf(fn_, op);
  place.dtype = fn_.type(op.operands[0]).dtype;
  place.bytes = ir::ByteSize(place.dtype);
  place.align = PowerOf(std::min(kVector, fn_.param(op.operands[0])->facts.base_align_bytes));
  place.scratch = SmemAddress(op.i("scratch"));
  place.shifted = op.i("shifted", 0) != 0;
  const int64_t row_bytes = place.run.columns * place.bytes;
  const auto known = [&](int64_t align) { place.align = std::min(place.align, PowerOf(align)); };
  const auto least = [&](llvm::Value* a, llvm::Value* b) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  };
  place.start = view.base;
  llvm::Value* always = nullptr;
  llvm::Value* rows = I64(place.run.rows);
  size_t operand = store ? 2 : 1;
  for (size_t d = 0; d + 1 < modes.size(); ++d) {
    const ir::ValueId index = op.operands[operand];
    llvm::Value* at = b_.CreateSExtOrTrunc(Scalar(index), b_.getInt64Ty());
    llvm::Value* stride = b_.CreateMul(view.stride[d], I64(place.bytes));
    place.start = b_.CreateAdd(place.start, b_.CreateMul(at, stride));
    if (modes[d] == 's') {
      always = And(always, b_.CreateICmpULT(at, view.extent[d]));
      known(fn_.param(op.operands[0])->facts.stride_align_bytes);
    } else {
      llvm::Value* bound = view.extent[d];
      if (store)
        bound =
            least(bound, b_.CreateSExtOrTrunc(Scalar(op.operands[operand + 1]), b_.getInt64Ty()));
      rows = least(rows, b_.CreateSub(bound, at));
      rows = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, rows, I64(0));
      place.pitch = stride;
      place.dense = b_.CreateICmpEQ(stride, I64(row_bytes));
      known(ir::AlignOf(fn_, index) * row_bytes);
    }
    operand += ir::OperandsOf(modes[d], store);
  }
  const bool one = place.run.row_dim < 0;
  if (one) {  // columns, from where the piece begins
    const ir::ValueId index = op.operands[operand];
    llvm::Value* at = b_.CreateSExtOrTrunc(Scalar(index), b_.getInt64Ty());
    place.start = b_.CreateAdd(place.start, b_.CreateMul(at, I64(place.bytes)));
    llvm::Value* bound = view.extent.back();
    known(ir::AlignOf(fn_, index) * place.bytes);
    known(row_bytes);
    const Expr& extent = fn_.param(op.operands[0])->dims.back();
    known(extent.is_const() && extent.value > 0 ? extent.value * place.bytes : place.bytes);
    if (store) {
      const ir::ValueId end = op.operands[operand + 1];
      bound = least(bound, b_.CreateSExtOrTrunc(Scalar(end), b_.getInt64Ty()));
      known(ir::AlignOf(fn_, end) * place.bytes);
    }
    rows = least(I64(place.run.columns), b_.CreateSub(bound, at));
    rows = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, rows, I64(0));
  }
  if (always) rows = b_.CreateSelect(always, rows, I64(0));
  place.inside = b_.CreateTrunc(rows, b_.getInt32Ty());
  place.skew = I32(0);
  if (place.align < kVector) {
    place.skew = b_.CreateAnd(b_.CreateTrunc(place.start, b_.getInt32Ty()), I32(kVector - 1));
    if (place.dense) place.skew = b_.CreateSelect(place.dense, place.skew, I32(0));
  }
  place.end =
      b_.CreateAdd(place.skew, b_.CreateMul(place.inside, I32(one ? place.bytes : row_bytes)));
  return place;
}

// Between the tensor and shared memory.
void Emitter::CopyRows(const RowPlace& place, bool out) {
  const int64_t threads = int64_t{32} * role_.warps;
  const int64_t at_once = place.shifted ? kAtOnce / 2 : kAtOnce;
  const int64_t vectors = ir::RowRunBytes(place.run, place.dtype) / kVector;
  const auto wide = [&](llvm::Value* v) { return b_.CreateZExt(v, b_.getInt64Ty()); };
  const auto below = [&](llvm::Value* a, llvm::Value* b) { return b_.CreateICmpULE(a, b); };
  // One element or vector from one side to the other.
  const auto from = [&](llvm::Value* global, llvm::Value* shared, int64_t offset, llvm::Value* when,
                        const Regs& zero, DType d) {
    return out ? LoadGlobal(shared, offset, when, zero, d, PtxInst::kLdShared)
               : LoadGlobal(global, offset, when, zero, d);
  };
  const auto to = [&](llvm::Value* global, llvm::Value* shared, int64_t offset, llvm::Value* when,
                      const Regs& moved, DType d) {
    if (out)
      StoreGlobal(global, offset, when, moved, d);
    else
      StoreGlobal(shared, offset, when, moved, d, PtxInst::kStShared);
  };
  const Regs none(1, Zero(place.dtype));
  llvm::BasicBlock *run = nullptr, *apart = nullptr, *done = nullptr;
  if (place.dense) {
    run = NewBlock("rows.run");
    apart = NewBlock("rows.apart");
    done = NewBlock("rows.done");
    b_.CreateCondBr(place.dense, run, apart);
    b_.SetInsertPoint(run);
  }
  llvm::Value* first = b_.CreateSub(place.start, wide(place.skew));  // a multiple of 16
  llvm::Value* own = b_.CreateShl(role_.thread, 4);
  llvm::Value* global = b_.CreateAdd(first, wide(own));
  llvm::Value* shared = b_.CreateAdd(place.scratch, own);
  const bool skewed = place.align < kVector, shifted = skewed && place.shifted;
  // Of a run that is shifted: the vector of scratch that the first bytes of one in the tensor are
  // in, and how far behind its begin.
  llvm::Value *off = nullptr, *behind = nullptr, *source = nullptr;
  if (shifted) {
    off = b_.CreateICmpNE(place.skew, I32(0));
    behind = b_.CreateAnd(b_.CreateNeg(place.skew), I32(kVector - 1));
    source = b_.CreateSub(shared, b_.CreateSelect(off, I32(kVector), I32(0)));
  }
  const auto from_scratch = [&](int64_t offset, llvm::Value* when) {
    const Regs zero(4, I32(0));
    Regs words = LoadGlobal(source, offset, when, zero, DType::kU32, PtxInst::kLdShared);
    const Regs next = LoadGlobal(source, offset + kVector, b_.CreateAnd(when, off), zero,
                                 DType::kU32, PtxInst::kLdShared);
    words.insert(words.end(), next.begin(), next.end());
    return ShiftWords(std::move(words), behind, place.bytes);
  };
  for (int64_t begin = 0; begin < vectors; begin += at_once * threads) {
    std::vector<std::pair<Regs, llvm::Value*>> moved;
    for (int64_t v = begin; v < std::min(vectors, begin + at_once * threads); v += threads) {
      llvm::Value* at = b_.CreateAdd(own, I32(v * kVector));
      llvm::Value* when = below(b_.CreateAdd(at, I32(kVector)), place.end);
      if (out && skewed && v == 0) when = b_.CreateAnd(when, below(place.skew, at));
      moved.emplace_back(
          shifted ? from_scratch(v * kVector, when)
                  : from(global, shared, v * kVector, when, Regs(4, I32(0)), DType::kU32),
          when);
    }
    for (size_t i = 0; i < moved.size(); ++i)
      to(global, shared, (begin + static_cast<int64_t>(i) * threads) * kVector, moved[i].second,
         moved[i].first, DType::kU32);
  }
  // What is left behind the last whole vector, and in front of the first.
  const auto some = [&](llvm::Value* base, llvm::Value* when) {
    llvm::Value* at = b_.CreateAdd(base, b_.CreateMul(role_.thread, I32(place.bytes)));
    when = And(when, b_.CreateICmpULT(role_.thread, I32(kVector / place.bytes)));
    when = And(when, b_.CreateICmpULT(at, place.end));
    if (skewed) when = And(when, below(place.skew, at));
    llvm::Value *g = b_.CreateAdd(first, wide(at)), *s = b_.CreateAdd(place.scratch, at);
    if (shifted) s = b_.CreateSub(s, place.skew);
    to(g, s, 0, when, from(g, s, 0, when, none, place.dtype), place.dtype);
  };
  some(b_.CreateAnd(place.end, I32(-kVector)), nullptr);
  if (out && skewed)
    some(I32(0), b_.CreateAnd(b_.CreateICmpNE(place.skew, I32(0)),
                              b_.CreateICmpUGE(place.end, I32(kVector))));
  if (!place.dense) return;
  b_.CreateBr(done);
  // Element after element, in the order of the run.
  b_.SetInsertPoint(apart);
  llvm::Value* elements = b_.CreateMul(place.inside, I32(place.run.columns));
  llvm::BasicBlock *loop = NewBlock("rows.loop"), *turn = NewBlock("rows.turn");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* e = b_.CreatePHI(b_.getInt32Ty(), 2);
  e->addIncoming(role_.thread, before);
  b_.CreateCondBr(b_.CreateICmpULT(e, elements), turn, done);
  b_.SetInsertPoint(turn);
  llvm::Value* row = b_.CreateUDiv(e, I32(place.run.columns));
  llvm::Value* column = b_.CreateURem(e, I32(place.run.columns));
  llvm::Value* g = b_.CreateAdd(place.start, b_.CreateMul(wide(row), place.pitch));
  g = b_.CreateAdd(g, wide(b_.CreateMul(column, I32(place.bytes))));
  llvm::Value* s = b_.CreateAdd(place.scratch, b_.CreateMul(e, I32(place.bytes)));
  to(g, s, 0, nullptr, from(g, s, 0, nullptr, none, place.dtype), place.dtype);
  e->addIncoming(b_.CreateAdd(e, I32(threads)), b_.GetInsertBlock());
  b_.CreateBr(loop);
  b_.SetInsertPoint(done);
}

// Rows of the tile beyond the tensor's last are what fills them, in shared memory: few CTAs have
// any, and nobody compares when it reads.
void Emitter::FillRows(const RowPlace& place, llvm::Value* fill) {
  const int64_t elements = place.run.rows * place.run.columns;
  llvm::Value* first =
      b_.CreateAdd(b_.CreateMul(place.inside, I32(place.run.columns)), role_.thread);
  llvm::BasicBlock *loop = NewBlock("rows.fill"), *turn = NewBlock("rows.fill.turn"),
                   *done = NewBlock("rows.filled");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* e = b_.CreatePHI(b_.getInt32Ty(), 2);
  e->addIncoming(first, before);
  b_.CreateCondBr(b_.CreateICmpSLT(e, I32(elements)), turn, done);
  b_.SetInsertPoint(turn);
  llvm::Value* at = b_.CreateAdd(place.scratch, place.skew);
  StoreGlobal(b_.CreateAdd(at, b_.CreateMul(e, I32(place.bytes))), 0, nullptr, {fill}, place.dtype,
              PtxInst::kStShared);
  e->addIncoming(b_.CreateAdd(e, I32(int64_t{32} * role_.warps)), b_.GetInsertBlock());
  b_.CreateBr(loop);
  b_.SetInsertPoint(done);
}

// Neighbouring elements of a thread, and where they lie in shared memory.
struct Emitter::RowAccess {
  std::vector<int> regs;
  llvm::Value* address = nullptr;  // i32
  int64_t offset = 0;
  llvm::Value* when = nullptr;  // i1: they lie inside of the run; null: they do
};

std::vector<Emitter::RowAccess> Emitter::RowAccesses(const RowPlace& place, ir::ValueId tile) {
  const ir::Type& type = fn_.type(tile);
  const ThreadPart& part = Part(type.layout);
  const bool rows = place.run.row_dim >= 0;
  CHECK(type.rank() == (rows ? 2 : 1), "a tile of whole rows");
  std::vector<int64_t> shape = {place.run.columns};
  if (rows) shape.insert(shape.begin(), place.run.rows);
  PanelView view;
  view.base = place.shifted ? place.scratch : b_.CreateAdd(place.scratch, place.skew);
  view.element_bytes = place.bytes;
  view.panel_cols = kAll;
  view.pitch = place.run.columns * place.bytes;
  view.align = place.shifted ? kVector : place.align;
  const MemPlan plan = PlanAccess(fn_.layouts[type.layout], part, shape, view, false);
  const auto addresses = Addresses(plan, view);
  // What is shifted is read in whole vectors: the last is written as a whole.
  llvm::Value* end = rows ? I32(place.run.columns) : place.inside;
  if (place.shifted)
    end = b_.CreateAnd(b_.CreateAdd(end, I32(kVector / place.bytes - 1)),
                       I32(-kVector / place.bytes));
  std::map<int64_t, llvm::Value*> in_rows, in_columns;  // by what the registers add
  const int64_t columns_most = part.max[shape.size() - 1];
  std::vector<RowAccess> out;
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const MemGroup& group = plan.groups[g];
    llvm::Value* when = nullptr;
    // Shared memory has room for all rows of the tile, be they inside of the tensor or not.
    if (rows && group.row + part.max[0] >= place.run.rows) {
      llvm::Value*& row = in_rows[group.row];
      if (!row) row = b_.CreateICmpSLT(plan.row, I32(place.run.rows - group.row));
      when = row;
    }
    if (!rows || group.col + columns_most >= place.run.columns) {
      llvm::Value*& column = in_columns[group.col];
      if (!column) column = b_.CreateICmpSLT(plan.col, b_.CreateSub(end, I32(group.col)));
      when = And(when, column);
    }
    out.push_back({group.regs, addresses[g].first, addresses[g].second, when});
  }
  return out;
}

Result<void> Emitter::EmitLoadRows(const ir::Op& op) {
  loads_ = LoadInst(op);
  const ir::ValueId tile = op.results[0];
  const ir::Type& type = fn_.type(tile);
  const RowPlace place = PlaceOfRows(op);
  RoleBarrier();
  CopyRows(place, false);
  llvm::Value* fill = op.i("has_fill") ? Scalar(op.operands.back()) : Zero(type.dtype);
  if (place.run.row_dim >= 0) FillRows(place, fill);
  RoleBarrier();
  Regs out(static_cast<size_t>(fn_.layouts[type.layout].regs()), fill);
  for (const RowAccess& a : RowAccesses(place, tile)) {
    const Regs loaded = LoadGlobal(a.address, a.offset, a.when, Regs(a.regs.size(), fill),
                                   type.dtype, PtxInst::kLdShared);
    for (size_t i = 0; i < loaded.size(); ++i) out[static_cast<size_t>(a.regs[i])] = loaded[i];
  }
  Set(tile, std::move(out));
  return Done();
}

Result<void> Emitter::EmitStoreRows(const ir::Op& op) {
  const ir::ValueId tile = op.operands[1];
  const ir::Type& type = fn_.type(tile);
  const RowPlace place = PlaceOfRows(op);
  const Regs& regs = Get(tile);
  llvm::Value* mine = Part(type.layout).first_replica;
  if (!op.i("alone", 0)) RoleBarrier();
  for (const RowAccess& a : RowAccesses(place, tile)) {
    Regs elements;
    for (int r : a.regs) elements.push_back(regs[static_cast<size_t>(r)]);
    StoreGlobal(a.address, a.offset, And(mine, a.when), elements, type.dtype, PtxInst::kStShared);
  }
  RoleBarrier();
  CopyRows(place, true);
  return Done();
}

}  // namespace tilec::backend
