// Tiles in shared memory: panels of rows, optionally swizzled (ir::SmemLayout).
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Operator.h>

#include <algorithm>

#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;

llvm::Value* Emitter::SmemAddress(int64_t offset) {
  return b_.CreateAdd(b_.CreatePtrToInt(smem_, b_.getInt32Ty()), I32(offset));
}

llvm::Value* Emitter::SlotAddress(const ir::Op& op, size_t smem, size_t slot) {
  llvm::Value* base = Scalar(op.operands[smem]);
  if (slot >= op.operands.size()) return base;
  const ir::Type& type = fn_.type(op.operands[smem]);
  llvm::Value* index = b_.CreateSExtOrTrunc(Scalar(op.operands[slot]), b_.getInt32Ty());
  return b_.CreateAdd(base, b_.CreateMul(index, I32(ir::SmemBytes(type.smem, type.dtype))));
}

llvm::Value* Emitter::SharedPointer(llvm::Value* address, int64_t offset) {
  llvm::Value* p = b_.CreateIntToPtr(address, llvm::PointerType::get(context_, 3));
  return offset ? b_.CreateConstGEP1_64(b_.getInt8Ty(), p, static_cast<uint64_t>(offset)) : p;
}

PanelView Emitter::View(ir::ValueId smem, llvm::Value* base) {
  const ir::Type& type = fn_.type(smem);
  PanelView view;
  view.base = base;
  view.element_bytes = ir::ByteSize(type.dtype);
  view.panel_cols = type.smem.panel_cols;
  view.pitch = view.panel_cols * view.element_bytes;
  view.panel_bytes = type.smem.rows * view.pitch;
  view.swizzle = type.smem.swizzle_bytes;
  return view;
}

namespace {
// Bits of the row that the swizzle adds (by XOR) to the 16-byte chunk of a column.
struct Swizzle {
  unsigned shift = 0;
  int64_t mask = 0;
};
Swizzle SwizzleOf(int bytes) {
  switch (bytes) {
    case 0: return {};
    case 32: return {2, 1};
    case 64: return {1, 3};
    case 128: return {0, 7};
  }
  UNREACHABLE("swizzle");
}
}  // namespace

llvm::Value* Emitter::SwizzleBits(const PanelView& view, llvm::Value* row) {
  const Swizzle s = SwizzleOf(view.swizzle);
  return b_.CreateShl(b_.CreateAnd(b_.CreateLShr(row, s.shift), I32(s.mask)), 4);
}

llvm::Value* Emitter::ElementAddress(const PanelView& view, llvm::Value* row, llvm::Value* col) {
  llvm::Value* panel = b_.CreateUDiv(col, I32(view.panel_cols));
  llvm::Value* inner =
      b_.CreateMul(b_.CreateURem(col, I32(view.panel_cols)), I32(view.element_bytes));
  if (view.swizzle != 0) inner = b_.CreateXor(inner, SwizzleBits(view, row));
  llvm::Value* address = b_.CreateAdd(view.base, b_.CreateMul(row, I32(view.pitch)));
  address = b_.CreateAdd(address, b_.CreateMul(panel, I32(view.panel_bytes)));
  return b_.CreateAdd(address, inner);
}

MemPlan Emitter::PlanAccess(const ir::Layout& layout, const ThreadPart& part,
                            const std::vector<int64_t>& shape, const PanelView& view,
                            bool transposed) {
  MemPlan plan;
  const int rank = layout.rank;
  CHECK(!transposed || rank == 2, "only matrices are stored transposed");
  const int col_dim = transposed ? 0 : rank - 1;
  std::vector<int64_t> row_mult(static_cast<size_t>(rank), 0);
  int64_t mult = 1;
  for (int d = rank - 1; d >= 0; --d) {
    if (d == col_dim) continue;
    row_mult[static_cast<size_t>(d)] = mult;
    mult *= shape[static_cast<size_t>(d)];
  }
  plan.row = I32(0);
  for (int d = 0; d < rank; ++d)
    if (d != col_dim)
      plan.row = b_.CreateAdd(plan.row, b_.CreateMul(part.coord[static_cast<size_t>(d)],
                                                     I32(row_mult[static_cast<size_t>(d)])));
  plan.col = part.coord[static_cast<size_t>(col_dim)];
  plan.col_inner = I32(0);
  int64_t place = 1;
  for (const ir::LayoutDigit& d : layout.thread) {
    if (d.dim == col_dim && d.extent > 1) {
      llvm::Value* digit = Digit(role_.thread, place, d.extent, layout.threads());
      if (d.stride % view.panel_cols == 0) {
        llvm::Value* panels = b_.CreateMul(digit, I32(d.stride / view.panel_cols));
        plan.col_panel = plan.col_panel ? b_.CreateAdd(plan.col_panel, panels) : panels;
      } else {
        plan.col_inner = b_.CreateAdd(plan.col_inner, b_.CreateMul(digit, I32(d.stride)));
        plan.col_inner_max += (d.extent - 1) * d.stride;
      }
    }
    place *= d.extent;
  }
  // Elements per access.
  const int64_t bytes = view.element_bytes;
  const ir::RegisterRun run = ir::RunAlong(layout, col_dim);
  if (run.digit >= 0) {
    auto fits = [&](int64_t n) {
      if (n * bytes > 16 || run.extent % n || view.panel_cols % n) return false;
      if (view.align % (n * bytes)) return false;
      if (shape[static_cast<size_t>(col_dim)] % n || view.pitch % (n * bytes)) return false;
      if (view.panel_bytes % (n * bytes)) return false;
      for (const ir::LayoutDigit& d : layout.thread)
        if (d.dim == col_dim && d.stride % n) return false;
      for (size_t i = 0; i < layout.reg.size(); ++i)
        if (static_cast<int>(i) != run.digit && layout.reg[i].dim == col_dim &&
            layout.reg[i].stride % n)
          return false;
      return true;
    };
    while (fits(plan.vector * 2)) plan.vector *= 2;
  }
  for (std::vector<int>& regs : ir::RunGroups(layout, run, plan.vector)) {
    const std::vector<int64_t> c = layout.RegCoord(regs[0]);
    MemGroup group;
    group.regs = std::move(regs);
    group.col = c[static_cast<size_t>(col_dim)];
    for (size_t d = 0; d < c.size(); ++d)
      if (static_cast<int>(d) != col_dim) group.row += c[d] * row_mult[d];
    if (plan.col_inner_max + group.col % view.panel_cols + plan.vector > view.panel_cols)
      plan.carries = true;
    plan.groups.push_back(std::move(group));
  }
  return plan;
}

// The address is split into a thread part, made once; a part that the swizzle mixes with the
// thread's row, shared by groups with equal column and row modulo 8; and a constant.
std::vector<std::pair<llvm::Value*, int64_t>> Emitter::Addresses(const MemPlan& plan,
                                                                 const PanelView& of) {
  std::vector<std::pair<llvm::Value*, int64_t>> out;
  PanelView view = of;
  const Swizzle s = SwizzleOf(view.swizzle);
  // Where nothing is mixed, the thread's part serves all buffers: each is a constant away. (As a
  // sum of its own every buffer's address took two registers, from its first reader to its last.)
  int64_t begin = 0;
  if (const auto* sum = llvm::dyn_cast<llvm::AddOperator>(view.base); sum && !s.mask)
    if (const auto* offset = llvm::dyn_cast<llvm::ConstantInt>(sum->getOperand(1))) {
      view.base = sum->getOperand(0);
      begin = offset->getSExtValue();
    }
  if (plan.carries) {
    for (const MemGroup& g : plan.groups)
      out.emplace_back(ElementAddress(view, b_.CreateAdd(plan.row, I32(g.row)),
                                      b_.CreateAdd(plan.col, I32(g.col))),
                       begin);
    return out;
  }
  llvm::Value* thread = b_.CreateAdd(view.base, b_.CreateMul(plan.row, I32(view.pitch)));
  if (plan.col_panel)
    thread = b_.CreateAdd(thread, b_.CreateMul(plan.col_panel, I32(view.panel_bytes)));
  llvm::Value* col_bytes = b_.CreateMul(plan.col_inner, I32(view.element_bytes));
  const int64_t col_bytes_max = plan.col_inner_max * view.element_bytes;
  llvm::Value* flat = b_.CreateAdd(thread, col_bytes);
  std::map<int64_t, llvm::Value*> chunks;                     // by row modulo 8
  std::map<std::pair<int64_t, int64_t>, llvm::Value*> mixed;  // and column byte
  for (const MemGroup& g : plan.groups) {
    const int64_t inner = (g.col % view.panel_cols) * view.element_bytes;
    const int64_t constant = g.row * view.pitch + (g.col / view.panel_cols) * view.panel_bytes;
    if (!s.mask) {
      out.emplace_back(flat, begin + constant + inner);
      continue;
    }
    const int64_t row8 = g.row % 8;
    llvm::Value*& chunk = chunks[row8];
    if (!chunk) {
      llvm::Value* row = row8 ? b_.CreateAdd(plan.row, I32(row8)) : plan.row;
      chunk = b_.CreateShl(b_.CreateAnd(b_.CreateLShr(row, s.shift), I32(s.mask)), 4);
    }
    // Whole chunks from registers and less than one from the thread do not interfere.
    const bool apart = col_bytes_max < 16 && inner % 16 + col_bytes_max < 16;
    llvm::Value*& address = mixed[{row8, apart ? inner / 16 * 16 : inner}];
    if (!address) {
      if (apart)
        address = b_.CreateAdd(flat, b_.CreateXor(chunk, I32(inner / 16 * 16)));
      else
        address = b_.CreateAdd(thread, b_.CreateXor(b_.CreateAdd(col_bytes, I32(inner)), chunk));
    }
    out.emplace_back(address, constant + (apart ? inner % 16 : 0));
  }
  return out;
}

// 16-bit tiles in the accumulator's layout: four 8x8 blocks per instruction. Lane l supplies the
// address of row l & 7 of block l / 8.
bool Emitter::StoreMatrix(ir::ValueId tile, const PanelView& view, bool transposed) {
  const ir::Type& type = fn_.type(tile);
  if (!options_.machine->Has("stmatrix")) return false;
  if (ir::ByteSize(type.dtype) != 2 || type.shape.size() != 2) return false;
  const ir::Layout& layout = fn_.layouts[type.layout];
  const std::vector<ir::LayoutDigit>& t = layout.thread;
  const std::vector<ir::LayoutDigit>& r = layout.reg;
  // Fragment: lanes 4 x 8, register pairs along dim 1, then 8 rows, then columns in steps of 8.
  if (t.size() < 2 || t[0] != ir::LayoutDigit{4, 1, 2} || r.size() < 2 ||
      r[0] != ir::LayoutDigit{2, 1, 1} || r[1] != ir::LayoutDigit{2, 0, 8})
    return false;
  if (t[1].dim != 0 || t[1].stride != 1 || t[1].extent % 8) return false;
  if (r.size() < 3 || r[2].dim != 1 || r[2].stride != 8 || r[2].extent % 2) return false;
  if (Part(type.layout).first_replica) return false;
  const std::vector<int64_t> extent = layout.Extent();
  if (extent[0] > type.shape[0] || extent[1] > type.shape[1]) return false;
  if (view.panel_cols % 8 || (view.pitch % 16) || view.panel_bytes % 16) return false;
  // Address tile coordinates: thread part without the lane, plus the lane's row and column.
  llvm::Value* lane = b_.CreateAnd(role_.thread, I32(31));
  llvm::Value* in_block = b_.CreateAnd(lane, I32(7));
  llvm::Value* row = b_.CreateAnd(b_.CreateLShr(lane, 3), I32(1));  // which of the two row blocks
  llvm::Value* col = b_.CreateLShr(lane, 4);                        // which of the two columns
  llvm::Value* warp = b_.CreateLShr(role_.thread, 5);
  llvm::Value* first[2] = {I32(0), I32(0)};  // of the warp's fragment
  int64_t place = 1;
  for (size_t i = 0; i < t.size(); ++i) {
    ir::LayoutDigit d = t[i];
    int64_t p = place;
    place *= d.extent;
    if (p < 32) {
      if (p * d.extent <= 32) continue;
      if ((32 % p) || d.extent % (32 / p)) return false;
      d.stride *= 32 / p;
      d.extent /= 32 / p;
      p = 32;
    }
    if (d.dim < 0) continue;
    llvm::Value* digit = Digit(warp, p / 32, d.extent, role_.warps);
    llvm::Value*& at = first[d.dim];
    at = b_.CreateAdd(at, b_.CreateMul(digit, I32(d.stride)));
  }
  llvm::Value* tile_row = b_.CreateAdd(first[0], b_.CreateShl(row, 3));
  llvm::Value* tile_col = b_.CreateAdd(first[1], b_.CreateShl(col, 3));
  const Regs words = Pack(Get(tile), type.dtype);
  for (size_t q = 0; q + 4 <= words.size(); q += 4) {
    const std::vector<int64_t> c = layout.RegCoord(static_cast<int64_t>(2 * q));
    llvm::Value* r0 = b_.CreateAdd(tile_row, I32(c[0]));
    llvm::Value* c0 = b_.CreateAdd(tile_col, I32(c[1]));
    llvm::Value* address = transposed ? ElementAddress(view, b_.CreateAdd(c0, in_block), r0)
                                      : ElementAddress(view, b_.CreateAdd(r0, in_block), c0);
    CallPtx(b_, transposed ? PtxInst::kStmatrixT : PtxInst::kStmatrix,
            {address, words[q], words[q + 1], words[q + 2], words[q + 3]});
  }
  return true;
}

void Emitter::StoreTile(ir::ValueId tile, const PanelView& view, bool transposed) {
  if (StoreMatrix(tile, view, transposed)) return;
  const ir::Type& type = fn_.type(tile);
  const ThreadPart& part = Part(type.layout);
  const MemPlan plan = PlanAccess(fn_.layouts[type.layout], part, type.shape, view, transposed);
  const Regs& regs = Get(tile);
  const auto addresses = Addresses(plan, view);
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const std::vector<int>& members = plan.groups[g].regs;
    Regs elements;
    for (int r : members) elements.push_back(regs[static_cast<size_t>(r)]);
    llvm::Value* predicate = And(part.first_replica, Inside(tile, members[0]));
    const auto [address, offset] = addresses[g];
    if (predicate) {
      StoreGlobal(address, offset, predicate, elements, type.dtype, PtxInst::kStShared);
      continue;
    }
    Regs words = ToMemory(elements, type.dtype);
    llvm::Value* value = words[0];
    if (words.size() > 1) {
      llvm::Type* vector =
          llvm::FixedVectorType::get(words[0]->getType(), static_cast<unsigned>(words.size()));
      value = llvm::PoisonValue::get(vector);
      for (size_t i = 0; i < words.size(); ++i)
        value = b_.CreateInsertElement(value, words[i], static_cast<uint64_t>(i));
    }
    const uint64_t bytes = static_cast<uint64_t>(view.element_bytes) * members.size();
    b_.CreateAlignedStore(value, SharedPointer(address, offset), llvm::Align(bytes));
  }
}

Regs Emitter::LoadTile(const ir::Type& type, ir::LayoutId layout, const PanelView& view,
                       bool transposed) {
  const ir::Layout& l = fn_.layouts[layout];
  const ThreadPart& part = Part(layout);
  const MemPlan plan = PlanAccess(l, part, type.shape, view, transposed);
  const auto addresses = Addresses(plan, view);
  Regs out(static_cast<size_t>(l.regs()));
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const std::vector<int>& members = plan.groups[g].regs;
    const size_t bytes = static_cast<size_t>(view.element_bytes) * members.size();
    auto [address, offset] = addresses[g];
    // Padding registers read element 0 instead of leaving the buffer.
    llvm::Value* inside = nullptr;
    const std::vector<int64_t> c = l.RegCoord(members[0]);
    for (size_t d = 0; d < c.size(); ++d)
      if (c[d] + part.max[d] >= type.shape[d])
        inside = And(inside, b_.CreateICmpSLT(part.coord[d], I32(type.shape[d] - c[d])));
    if (inside) {
      address = b_.CreateSelect(inside, b_.CreateAdd(address, I32(offset)), view.base);
      offset = 0;
    }
    llvm::Type* word = b_.getIntNTy(static_cast<unsigned>(std::min<size_t>(bytes * 8, 32)));
    if (view.element_bytes == 8) word = b_.getInt64Ty();
    const size_t words = bytes * 8 / word->getIntegerBitWidth();
    llvm::Type* type_of_load = words > 1 ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(
                                               word, static_cast<unsigned>(words)))
                                         : word;
    llvm::Value* loaded = b_.CreateAlignedLoad(type_of_load, SharedPointer(address, offset),
                                               llvm::Align(static_cast<uint64_t>(bytes)));
    Regs parts;
    for (size_t i = 0; i < words; ++i)
      parts.push_back(words > 1 ? b_.CreateExtractElement(loaded, static_cast<uint64_t>(i))
                                : loaded);
    const Regs elements = FromMemory(parts, type.dtype, members.size());
    for (size_t i = 0; i < members.size(); ++i) out[static_cast<size_t>(members[i])] = elements[i];
  }
  return out;
}

Result<void> Emitter::EmitSmemStore(const ir::Op& op) {
  StoreTile(op.operands[0], View(op.operands[1], SlotAddress(op, 1, 2)), op.i("transposed") != 0);
  return Done();
}

Result<void> Emitter::EmitSmemLoad(const ir::Op& op) {
  const ir::Type& type = fn_.type(op.results[0]);
  Set(op.results[0], LoadTile(type, type.layout, View(op.operands[0], SlotAddress(op, 0, 1)),
                              op.i("transposed") != 0));
  return Done();
}

Result<void> Emitter::EmitSmemZero(const ir::Op& op) {
  const ir::Type& type = fn_.type(op.operands[0]);
  const int64_t bytes = ir::SmemBytes(type.smem, type.dtype), threads = int64_t{32} * role_.warps;
  llvm::Value* base = SlotAddress(op, 0, 1);
  const Regs zero(4, I32(0));
  const Regs byte(1, b_.getInt8(0));
  const int64_t vectors = bytes / 16;
  llvm::Value* mine = b_.CreateAdd(base, b_.CreateShl(role_.thread, 4));
  // Long buffers in a loop of eight stores, the rest one by one.
  int64_t done = 0;
  const int64_t turn = threads * 8;
  if (vectors >= 2 * turn) {
    const int64_t turns = vectors / turn;
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::BasicBlock* loop = NewBlock("zero");
    llvm::BasicBlock* after = NewBlock("zero.end");
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode* at = b_.CreatePHI(b_.getInt32Ty(), 2);
    at->addIncoming(mine, before);
    for (int64_t i = 0; i < 8; ++i)
      StoreGlobal(at, i * threads * 16, nullptr, zero, DType::kU32, PtxInst::kStShared);
    llvm::Value* next = b_.CreateAdd(at, I32(turn * 16));
    at->addIncoming(next, loop);
    b_.CreateCondBr(b_.CreateICmpNE(next, b_.CreateAdd(mine, I32(turns * turn * 16))), loop, after);
    b_.SetInsertPoint(after);
    done = turns * turn;
  }
  for (; done < vectors; done += threads) {
    llvm::Value* in = nullptr;
    if (done + threads > vectors) in = b_.CreateICmpULT(role_.thread, I32(vectors - done));
    StoreGlobal(mine, done * 16, in, zero, DType::kU32, PtxInst::kStShared);
  }
  const int64_t tail = bytes - vectors * 16;
  if (tail)
    StoreGlobal(b_.CreateAdd(base, role_.thread), vectors * 16,
                b_.CreateICmpULT(role_.thread, I32(tail)), byte, DType::kU8, PtxInst::kStShared);
  return Done();
}

}  // namespace tilec::backend
