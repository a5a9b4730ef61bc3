// Integers, element by element. Division and modulus floor, and by zero both give 0; shift counts
// of the width or more shift everything out. Most of what that costs is spared where a range is
// known.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include "backend/emitter.h"
#include "ir/integer_range.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;
using ir::OpKind;

llvm::Value* Emitter::IntUnary(OpKind kind, llvm::Value* x, DType d) {
  switch (kind) {
    case OpKind::kNeg: return b_.CreateNeg(x);
    case OpKind::kNot: return b_.CreateNot(x);
    case OpKind::kAbs:
      return ir::IsSigned(d) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse()) : x;
    case OpKind::kFloor:
    case OpKind::kCeil:
    case OpKind::kRound: return x;
    default: UNREACHABLE(std::string("no unary integer op ") + ir::Info(kind).mnemonic);
  }
}

// A counter, or one and something added.
bool Emitter::IsCount(ir::ValueId v) const {
  const ir::Op* def = fn_.def(v);
  if (!def) return false;
  if (def->kind == OpKind::kCounterRead) return true;
  if (def->kind != OpKind::kAdd || !IsCount(def->operands[0])) return false;
  const ir::Op* by = fn_.def(def->operands[1]);
  return by && by->kind == OpKind::kConstant && by->number("value") >= 0;
}

llvm::Value* Emitter::IntBinary(OpKind kind, llvm::Value* x, llvm::Value* y, DType d) {
  const bool sign = ir::IsSigned(d);
  switch (kind) {
    case OpKind::kAdd: return b_.CreateAdd(x, y);
    case OpKind::kSub: return b_.CreateSub(x, y);
    case OpKind::kMul: return b_.CreateMul(x, y);
    case OpKind::kAnd: return b_.CreateAnd(x, y);
    case OpKind::kOr: return b_.CreateOr(x, y);
    case OpKind::kXor: return b_.CreateXor(x, y);
    case OpKind::kMin:
      return b_.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
    case OpKind::kMax:
      return b_.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    case OpKind::kShl:
    case OpKind::kShr: {
      // Counts of the width or more shift everything out.
      if (const auto* by = llvm::dyn_cast<llvm::ConstantInt>(y);
          by && by->getValue().ult(x->getType()->getIntegerBitWidth()))
        return kind == OpKind::kShl ? b_.CreateShl(x, y)
                                    : (sign ? b_.CreateAShr(x, y) : b_.CreateLShr(x, y));
      llvm::Value* width = llvm::ConstantInt::get(x->getType(), x->getType()->getIntegerBitWidth());
      llvm::Value* ok = b_.CreateICmpULT(y, width);
      llvm::Value* count = b_.CreateSelect(ok, y, llvm::ConstantInt::get(x->getType(), 0));
      llvm::Value* zero = llvm::ConstantInt::get(x->getType(), 0);
      if (kind == OpKind::kShl) return b_.CreateSelect(ok, b_.CreateShl(x, count), zero);
      if (!sign) return b_.CreateSelect(ok, b_.CreateLShr(x, count), zero);
      llvm::Value* most =
          llvm::ConstantInt::get(x->getType(), x->getType()->getIntegerBitWidth() - 1);
      return b_.CreateAShr(x, b_.CreateSelect(ok, y, most));
    }
    case OpKind::kDiv:
    case OpKind::kMod: {
      const bool div = kind == OpKind::kDiv;
      auto* constant = llvm::dyn_cast<llvm::ConstantInt>(y);
      if (constant && constant->getValue().isPowerOf2() &&
          !(sign && constant->getValue().isSignMask())) {
        const unsigned shift = constant->getValue().logBase2();
        if (!div) return b_.CreateAnd(x, b_.CreateSub(y, llvm::ConstantInt::get(y->getType(), 1)));
        return sign ? b_.CreateAShr(x, shift) : b_.CreateLShr(x, shift);
      }
      llvm::Value* zero = llvm::ConstantInt::get(x->getType(), 0);
      llvm::Value* one = llvm::ConstantInt::get(x->getType(), 1);
      llvm::Value* by_zero = b_.CreateICmpEQ(y, zero);
      if (!sign) {
        llvm::Value* safe = b_.CreateSelect(by_zero, one, y);
        llvm::Value* v = div ? b_.CreateUDiv(x, safe) : b_.CreateURem(x, safe);
        return b_.CreateSelect(by_zero, zero, v);
      }
      // -1 apart: the smallest value divided by it overflows.
      llvm::Value* minus = b_.CreateICmpEQ(y, llvm::ConstantInt::getSigned(x->getType(), -1));
      llvm::Value* safe = b_.CreateSelect(b_.CreateOr(by_zero, minus), one, y);
      llvm::Value* r = b_.CreateSRem(x, safe);
      llvm::Value* adjust =
          b_.CreateAnd(b_.CreateICmpNE(r, zero), b_.CreateICmpSLT(b_.CreateXor(r, safe), zero));
      llvm::Value* v;
      if (div) {
        v = b_.CreateSub(b_.CreateSDiv(x, safe), b_.CreateZExt(adjust, x->getType()));
        v = b_.CreateSelect(minus, b_.CreateNeg(x), v);
      } else {
        v = b_.CreateAdd(r, b_.CreateSelect(adjust, safe, zero));
      }
      return b_.CreateSelect(by_zero, zero, v);
    }
    case OpKind::kDivRn: return IntBinary(OpKind::kDiv, x, y, d);
    default: UNREACHABLE(std::string("no binary integer op ") + ir::Info(kind).mnemonic);
  }
}

// A shift by fewer bits than there are: nothing need be asked of each element's count. (One that
// all elements share is asked about once.)
bool Emitter::ShiftsWithin(const ir::Op& op) const {
  if (op.kind != OpKind::kShl && op.kind != OpKind::kShr) return false;
  const ir::Op* count = fn_.def(op.operands[1]);
  if (fn_.type(op.operands[1]).shape.empty() ||
      (count && count->kind == OpKind::kWarpBroadcast && count->ints("axes").empty()))
    return false;
  const ir::KnownRange by = ir::RangeOf(fn_, op.operands[1]);
  return by && by->least >= 0 && by->most < ir::Info(fn_.type(op.results[0]).dtype).bits;
}

void Emitter::EmitIntegers(const ir::Op& op) {
  const DType d = fn_.type(op.operands[0]).dtype;
  const Regs& a = Get(op.operands[0]);
  Regs out;
  // Counts of transfers are not negative: that saves half of the instructions of their division.
  const bool count =
      (op.kind == OpKind::kDiv || op.kind == OpKind::kMod) && IsCount(op.operands[0]);
  const bool within = ShiftsWithin(op);
  for (size_t i = 0; i < a.size(); ++i) {
    if (op.operands.size() == 1) {
      out.push_back(IntUnary(op.kind, a[i], d));
      continue;
    }
    llvm::Value* y = Get(op.operands[1])[i];
    if (within) {
      out.push_back(op.kind == OpKind::kShl ? b_.CreateShl(a[i], y)
                    : ir::IsSigned(d)       ? b_.CreateAShr(a[i], y)
                                            : b_.CreateLShr(a[i], y));
      continue;
    }
    if (op.kind == OpKind::kFma)
      out.push_back(b_.CreateAdd(b_.CreateMul(a[i], y), Get(op.operands[2])[i]));
    else if (op.kind == OpKind::kCmp)
      out.push_back(Compare(op.s("pred"), a[i], y, d));
    else
      out.push_back(IntBinary(op.kind, a[i], y, count ? DType::kU32 : d));
  }
  Set(op.results[0], std::move(out));
}

}  // namespace tilec::backend
