// How values are held: element types, packing into words, what a thread knows of a layout.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;
using ir::OpKind;

llvm::Type* Emitter::ElementType(DType d) {
  if (d == DType::kBool) return b_.getInt1Ty();
  if (d == DType::kF64) return b_.getDoubleTy();
  if (d == DType::kF32 || d == DType::kTF32) return b_.getFloatTy();
  return b_.getIntNTy(static_cast<unsigned>(ir::Info(d).bits));
}

llvm::Value* Emitter::Zero(DType d) { return llvm::Constant::getNullValue(ElementType(d)); }

const Regs& Emitter::Get(ir::ValueId v) {
  const Regs& regs = values_[static_cast<size_t>(v.index)];
  CHECK(!regs.empty(), "value used before it was emitted");
  return regs;
}

void Emitter::Set(ir::ValueId v, Regs regs) {
  const ir::Type& t = fn_.type(v);
  if (t.is_tile() && t.rank() > 0)
    CHECK(static_cast<int64_t>(regs.size()) == fn_.layout(v).regs(), "registers of a tile");
  values_[static_cast<size_t>(v.index)] = std::move(regs);
}

bool Emitter::HasProducts() const {
  return std::any_of(fn_.ops.begin(), fn_.ops.end(), [](const ir::Op& op) {
    return op.kind == ir::OpKind::kMma || op.kind == ir::OpKind::kTcMma;
  });
}

Regs Emitter::Pack(const Regs& elements, DType d) {
  const int bits = d == DType::kBool ? 1 : ir::Info(d).bits;
  if (bits != 8 && bits != 16) return elements;
  // Bytes become pairs first: conversions make them so, and LLVM sees that a pair is what one made.
  const auto paired = [&](const Regs& parts, int width) {
    Regs out;
    llvm::Type* wide = b_.getIntNTy(2 * static_cast<unsigned>(width));
    for (size_t i = 0; i < parts.size(); i += 2) {
      llvm::Value* pair = b_.CreateZExt(parts[i], wide);
      if (i + 1 < parts.size())
        pair = b_.CreateOr(
            pair, b_.CreateShl(b_.CreateZExt(parts[i + 1], wide), static_cast<uint64_t>(width)));
      out.push_back(pair);
    }
    return out;
  };
  return bits == 8 ? paired(paired(elements, 8), 16) : paired(elements, 16);
}

Regs Emitter::Unpack(const Regs& words, DType d, size_t count) {
  const int bits = d == DType::kBool ? 1 : ir::Info(d).bits;
  if (bits != 8 && bits != 16) return words;
  const size_t per = static_cast<size_t>(32 / bits);
  Regs out;
  for (size_t i = 0; i < count; ++i) {
    llvm::Value* v = words[i / per];
    if (i % per) v = b_.CreateLShr(v, static_cast<uint64_t>(bits) * (i % per));
    out.push_back(b_.CreateTrunc(v, ElementType(d)));
  }
  return out;
}

Regs Emitter::ToMemory(const Regs& elements, DType d) {
  const size_t bytes = elements.size() * static_cast<size_t>(ir::ByteSize(d));
  Regs bits;
  for (llvm::Value* v : elements) {
    if (d == DType::kBool)
      bits.push_back(b_.CreateZExt(v, b_.getInt8Ty()));
    else if (v->getType()->isFloatTy())
      bits.push_back(b_.CreateBitCast(v, b_.getInt32Ty()));
    else if (v->getType()->isDoubleTy())
      bits.push_back(b_.CreateBitCast(v, b_.getInt64Ty()));
    else
      bits.push_back(v);
  }
  if (ir::ByteSize(d) >= 4 || elements.size() == 1) return bits;
  if (bytes == 2)  // two bytes
    return {b_.CreateOr(b_.CreateZExt(bits[0], b_.getInt16Ty()),
                        b_.CreateShl(b_.CreateZExt(bits[1], b_.getInt16Ty()), 8))};
  return Pack(bits, ir::ByteSize(d) == 2 ? DType::kU16 : DType::kU8);
}

Regs Emitter::FromMemory(const Regs& words, DType d, size_t count) {
  const int size = ir::ByteSize(d);
  Regs bits;
  if (size >= 4 || count == 1) {
    bits = words;
  } else if (count * static_cast<size_t>(size) == 2) {
    bits = {b_.CreateTrunc(words[0], b_.getInt8Ty()),
            b_.CreateTrunc(b_.CreateLShr(words[0], 8), b_.getInt8Ty())};
  } else {
    bits = Unpack(words, size == 2 ? DType::kU16 : DType::kU8, count);
  }
  for (llvm::Value*& v : bits) {
    if (d == DType::kBool)
      v = b_.CreateICmpNE(v, llvm::ConstantInt::get(v->getType(), 0));
    else
      v = b_.CreateBitCast(v, ElementType(d));
  }
  return bits;
}

llvm::Value* Emitter::And(llvm::Value* a, llvm::Value* b) {
  if (!a) return b;
  if (!b) return a;
  return b_.CreateAnd(a, b);
}

llvm::Value* Emitter::Digit(llvm::Value* thread, int64_t place, int64_t extent, int64_t threads) {
  llvm::Value* v = thread;
  if (place > 1) v = b_.CreateUDiv(v, I32(place));
  if (place * extent < threads) v = b_.CreateURem(v, I32(extent));
  return v;
}

ThreadPart Emitter::MakePart(const ir::Layout& layout) {
  ThreadPart part;
  part.coord.assign(static_cast<size_t>(layout.rank), I32(0));
  part.max.assign(static_cast<size_t>(layout.rank), 0);
  const int64_t threads = layout.threads();
  CHECK(threads == 32 * role_.warps, "layout " + ir::ToText(layout) + " is for another role");
  int64_t place = 1;
  llvm::Value* first = nullptr;
  for (const ir::LayoutDigit& d : layout.thread) {
    if (d.extent > 1) {
      llvm::Value* digit = Digit(role_.thread, place, d.extent, threads);
      if (d.dim < 0) {
        first = And(first, b_.CreateICmpEQ(digit, I32(0)));
      } else {
        const size_t i = static_cast<size_t>(d.dim);
        part.coord[i] =
            b_.CreateAdd(part.coord[i], b_.CreateMul(digit, I32(d.stride)), "", true, true);
        part.max[i] += (d.extent - 1) * d.stride;
      }
    }
    place *= d.extent;
  }
  part.first_replica = first;
  return part;
}

const ThreadPart& Emitter::Part(ir::LayoutId id) {
  auto it = role_.parts.find(id.index);
  if (it != role_.parts.end()) return it->second;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(role_.anchor);
  b_.SetCurrentDebugLocation({});
  return role_.parts[id.index] = MakePart(fn_.layouts[id]);
}

llvm::Value* Emitter::Inside(ir::ValueId tile, int64_t reg) {
  const ir::Type& type = fn_.type(tile);
  if (type.shape.empty()) return nullptr;
  const ThreadPart& part = Part(type.layout);
  const std::vector<int64_t> c = fn_.layouts[type.layout].RegCoord(reg);
  llvm::Value* inside = nullptr;
  for (size_t d = 0; d < type.shape.size(); ++d) {
    if (c[d] >= type.shape[d]) return b_.getFalse();
    if (c[d] + part.max[d] < type.shape[d]) continue;
    inside = And(inside, b_.CreateICmpSLT(part.coord[d], I32(type.shape[d] - c[d])));
  }
  return inside;
}

std::vector<int> Emitter::Follow(const ir::Layout& from, const std::vector<int64_t>& from_shape,
                                 const ir::Layout& to, const std::vector<int64_t>& to_shape,
                                 const std::vector<int>& from_dim) {
  const std::string what = ir::ToText(from) + " does not feed " + ir::ToText(to);
  const size_t rank = from_dim.size();
  for (int64_t t = 0, n = to.threads(); t < n; ++t) {
    const std::vector<int64_t> f = from.ThreadCoord(t), c = to.ThreadCoord(t);
    for (size_t i = 0; i < rank; ++i) {
      const size_t d = static_cast<size_t>(from_dim[i]);
      if (from_dim[i] < 0) CHECK(f[i] == 0, what);
      if (from_dim[i] >= 0 && from_shape[i] > 1) CHECK(f[i] == c[d], what);
      // A dim of extent 1 that repeats: element 0 must be in every thread that needs it.
      if (from_dim[i] >= 0 && from_shape[i] == 1 && to_shape[d] > 1) CHECK(f[i] == 0, what);
    }
  }
  std::map<std::vector<int64_t>, int> where;
  for (int64_t r = from.regs() - 1; r >= 0; --r) {
    std::vector<int64_t> c = from.RegCoord(r);
    for (size_t i = 0; i < rank; ++i)
      if (from_shape[i] == 1 && c[i] > 0) c[i] = -1;  // padding
    where[c] = static_cast<int>(r);
  }
  std::vector<int> map;
  for (int64_t r = 0, n = to.regs(); r < n; ++r) {
    const std::vector<int64_t> c = to.RegCoord(r);
    std::vector<int64_t> key(rank, 0);
    for (size_t i = 0; i < rank; ++i)
      if (from_dim[i] >= 0 && from_shape[i] > 1) key[i] = c[static_cast<size_t>(from_dim[i])];
    bool padding = false;
    for (size_t d = 0; d < c.size(); ++d) padding |= c[d] >= to_shape[d];
    auto it = where.find(key);
    CHECK(padding || it != where.end(), what);
    map.push_back(it == where.end() ? -1 : it->second);
  }
  return map;
}

bool Emitter::NonNegative(ir::ValueId v, int depth) const {
  if (depth > 8) return false;
  if (const ir::Param* p = fn_.param(v)) return p->kind == ir::ParamKind::kDim;
  const ir::Type& type = fn_.type(v);
  if (ir::Info(type.dtype).cls == ir::DTypeClass::kUnsigned) return true;
  const ir::Op* op = fn_.def(v);
  if (!op) {  // block argument: the position of a counted loop
    const ir::Block& block = fn_.blocks[fn_.values[v].block];
    if (!block.parent.valid() || block.args.empty() || block.args[0] != v) return false;
    const ir::Op& loop = fn_.ops[block.parent];
    return loop.kind == OpKind::kFor && loop.i("step") > 0 &&
           NonNegative(loop.operands[0], depth + 1);
  }
  auto operand = [&](size_t i) { return NonNegative(op->operands[i], depth + 1); };
  switch (op->kind) {
    case OpKind::kConstant: return op->number("value") >= 0;
    case OpKind::kProgramId: return true;
    case OpKind::kPin: return operand(0);
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kMin:
    case OpKind::kDiv:
    case OpKind::kMod: return operand(0) && operand(1);
    case OpKind::kMax: return operand(0) || operand(1);
    case OpKind::kSelect: return operand(1) && operand(2);
    case OpKind::kCast:
      return ir::IsInteger(fn_.type(op->operands[0]).dtype) &&
             ir::ByteSize(type.dtype) >= ir::ByteSize(fn_.type(op->operands[0]).dtype) &&
             operand(0);
    default: return false;
  }
}

// No more than what is returned, if anything is known. Dims are 2³¹−1 at most: the launcher refuses
// larger ones.
std::optional<int64_t> Emitter::AtMost(ir::ValueId v, int depth) const {
  constexpr int64_t kLargestDim = INT32_MAX;
  if (depth > 16) return std::nullopt;
  if (const ir::Param* p = fn_.param(v))
    return p->kind == ir::ParamKind::kDim ? std::optional(kLargestDim) : std::nullopt;
  const ir::Op* op = fn_.def(v);
  if (!op || !ir::IsInteger(fn_.type(v).dtype)) return std::nullopt;
  auto operand = [&](size_t i) { return AtMost(op->operands[i], depth + 1); };
  switch (op->kind) {
    case OpKind::kConstant: return op->i("value");
    case OpKind::kPin: return operand(0);
    case OpKind::kMin: {
      const std::optional<int64_t> a = operand(0), b = operand(1);
      return a && b ? std::min(*a, *b) : a ? a : b;
    }
    case OpKind::kMax: {
      const std::optional<int64_t> a = operand(0), b = operand(1);
      return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
    }
    case OpKind::kAdd: {
      const std::optional<int64_t> a = operand(0), b = operand(1);
      return a && b && *a <= kLargestDim && *b <= kLargestDim ? std::optional(*a + *b)
                                                              : std::nullopt;
    }
    case OpKind::kSub: return NonNegative(op->operands[1]) ? operand(0) : std::nullopt;
    case OpKind::kDiv:
      return NonNegative(op->operands[0]) && NonNegative(op->operands[1]) ? operand(0)
                                                                          : std::nullopt;
    case OpKind::kCast:
      return ir::IsInteger(fn_.type(op->operands[0]).dtype) &&
                     ir::ByteSize(fn_.type(v).dtype) >= 4 && NonNegative(op->operands[0])
                 ? operand(0)
                 : std::nullopt;
    default: return std::nullopt;
  }
}

// Do a loop's position and the one behind its last fit into 32 bits?
bool Emitter::IsNarrow(const ir::Op& loop) const {
  if (loop.i("narrow")) return true;
  const ir::ValueId lo = loop.operands[0], hi = loop.operands[1];
  if (!NonNegative(lo) || !NonNegative(hi)) return false;
  const std::optional<int64_t> first = AtMost(lo), last = AtMost(hi);
  return first && last && *first <= UINT32_MAX && *last <= INT32_MAX && loop.i("step") <= INT32_MAX;
}

}  // namespace tilec::backend
