// Elements at other places: slices, shifts, reversals, other shapes. The operand is written
// row-major, so that an element's number is its place, and each result register is read by the
// number that its coordinates give, a sum of one part of the thread and one of the register.
//
// SPDX-License-Identifier: Apache-2.0
#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

Result<void> Emitter::EmitRearrange(const ir::Op& op) {
  const ir::ValueId from = op.operands[0], to = op.results[0];
  const ir::Type &in = fn_.type(from), &out = fn_.type(to);
  const std::vector<int64_t>& strides = op.ints("strides");
  const int64_t count = in.elements(), bytes = ir::ByteSize(in.dtype);
  const int64_t registers = out.shape.empty() ? 1 : fn_.layout(to).regs();
  // Numbers: the thread's part (with the least and the largest that it can be), the register's.
  llvm::Value* thread = I32(0);
  int64_t least = 0, most = 0;
  if (!out.shape.empty()) {
    const ThreadPart& part = Part(out.layout);
    for (size_t d = 0; d < strides.size(); ++d) {
      thread = b_.CreateAdd(thread, b_.CreateMul(part.coord[d], I32(strides[d])));
      (strides[d] < 0 ? least : most) += part.max[d] * strides[d];
    }
  }
  const auto number = [&](int64_t r) {
    int64_t n = op.i("first");
    if (out.shape.empty()) return n;
    const std::vector<int64_t> c = fn_.layout(to).RegCoord(r);
    for (size_t d = 0; d < strides.size(); ++d) n += c[d] * strides[d];
    return n;
  };
  llvm::Value* base = nullptr;
  if (!in.shape.empty()) {
    CHECK(op.i("scratch", -1) >= 0, "rearrange without scratch");
    base = SmemAddress(op.i("scratch"));
    PanelView view;
    view.base = base;
    view.element_bytes = bytes;
    view.panel_cols = int64_t{1} << 30;  // one panel
    view.pitch = in.shape.back() * bytes;
    RoleBarrier();
    StoreTile(from, view, false);
    RoleBarrier();
  }
  llvm::Value* mine = base ? b_.CreateAdd(base, b_.CreateMul(thread, I32(bytes))) : nullptr;
  Regs regs;
  for (int64_t r = 0; r < registers; ++r) {
    const int64_t n = number(r);
    llvm::Value* zero = Zero(in.dtype);
    if (n + most < 0 || n + least >= count) {
      regs.push_back(zero);
      continue;
    }
    llvm::Value* inside = nullptr;
    if (n + least < 0) inside = b_.CreateICmpSGE(thread, I32(-n));
    if (n + most >= count) inside = And(inside, b_.CreateICmpSLT(thread, I32(count - n)));
    llvm::Value* element = nullptr;
    if (base) {
      llvm::Value* address = mine;
      int64_t offset = n * bytes;
      // Pointers do not wrap at 32 bits: what a thread's part takes away is added here.
      if (inside || least < 0 || n < 0) {
        address = b_.CreateAdd(mine, I32(offset));
        if (inside) address = b_.CreateSelect(inside, address, base);
        offset = 0;
      }
      llvm::Type* word = b_.getIntNTy(static_cast<unsigned>(bytes * 8));
      llvm::Value* loaded = b_.CreateAlignedLoad(word, SharedPointer(address, offset),
                                                 llvm::Align(static_cast<uint64_t>(bytes)));
      element = FromMemory({loaded}, in.dtype, 1)[0];
    } else {
      element = Scalar(from);
    }
    regs.push_back(inside ? b_.CreateSelect(inside, element, zero) : element);
  }
  Set(to, std::move(regs));
  return Done();
}

}  // namespace tilec::backend
