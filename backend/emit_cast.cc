// Conversions between element types, each rounding once.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>

#include "backend/emitter.h"
#include "backend/small_floats.h"
#include "backend/small_ints.h"
#include "ir/integer_range.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;

namespace {
bool IsWordFloat(DType d) { return d == DType::kF32 || d == DType::kTF32; }
bool IsNarrowFloat(DType d) { return ir::IsFloat(d) && ir::ByteSize(d) < 4; }

// Whether every value that an integer may have is an f32: as little as a mask of its bits says.
// (Smaller ones, whose bounds small_ints.cc knows, need no conversion and have been dealt with.)
bool FitsF32(llvm::Value* a, bool sign, const llvm::DataLayout& layout) {
  constexpr unsigned kSignificant = 24;
  return (sign ? llvm::ComputeMaxSignificantBits(a, layout) - 1
               : llvm::computeKnownBits(a, layout).countMaxActiveBits()) <= kSignificant;
}
}  // namespace

Regs Emitter::ToF32(const Regs& a, DType d) {
  Regs out;
  switch (d) {
    case DType::kF16:
      for (llvm::Value* v : a) out.push_back(CallPtx(b_, PtxInst::kCvtF32F16, {v}));
      return out;
    case DType::kBF16:
      for (llvm::Value* v : a)
        out.push_back(
            b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(v, b_.getInt32Ty()), 16), b_.getFloatTy()));
      return out;
    case DType::kUE8M0:
      for (llvm::Value* v : a) out.push_back(ScaleToF32(b_, v));
      return out;
    case DType::kUE4M3: {
      Regs positive;  // the eighth bit is none of it
      for (llvm::Value* v : a) positive.push_back(b_.CreateAnd(v, 0x7f));
      return ToF32(positive, DType::kE4M3);
    }
    case DType::kE4M3:
    case DType::kE5M2:
      if (!options_.machine->Has("fp8_conversions")) {
        for (llvm::Value* v : a) out.push_back(SmallFloatToF32(b_, v, d));
        return out;
      }
      for (size_t i = 0; i < a.size(); i += 2) {
        llvm::Value* pair = b_.CreateZExt(a[i], b_.getInt16Ty());
        if (i + 1 < a.size())
          pair = b_.CreateOr(pair, b_.CreateShl(b_.CreateZExt(a[i + 1], b_.getInt16Ty()), 8));
        llvm::Value* halves = CallPtx(
            b_, d == DType::kE4M3 ? PtxInst::kCvtF16x2E4m3x2 : PtxInst::kCvtF16x2E5m2x2, {pair});
        out.push_back(CallPtx(b_, PtxInst::kCvtF32F16, {b_.CreateTrunc(halves, b_.getInt16Ty())}));
        if (i + 1 < a.size())
          out.push_back(CallPtx(b_, PtxInst::kCvtF32F16,
                                {b_.CreateTrunc(b_.CreateLShr(halves, 16), b_.getInt16Ty())}));
      }
      return out;
    case DType::kF64:
      for (llvm::Value* v : a) out.push_back(b_.CreateFPTrunc(v, b_.getFloatTy()));
      return out;
    default: return a;
  }
}

Regs Emitter::FromF32(const Regs& a, DType d) {
  Regs out;
  switch (d) {
    case DType::kF16:
    case DType::kBF16: {
      const bool half = d == DType::kF16;
      for (size_t i = 0; i < a.size(); i += 2) {
        if (i + 1 == a.size()) {
          out.push_back(CallPtx(b_, half ? PtxInst::kCvtF16F32 : PtxInst::kCvtBf16F32, {a[i]}));
          break;
        }
        llvm::Value* pair =
            CallPtx(b_, half ? PtxInst::kCvtF16x2F32 : PtxInst::kCvtBf16x2F32, {a[i + 1], a[i]});
        out.push_back(b_.CreateTrunc(pair, b_.getInt16Ty()));
        out.push_back(b_.CreateTrunc(b_.CreateLShr(pair, 16), b_.getInt16Ty()));
      }
      return out;
    }
    case DType::kUE8M0:
      for (llvm::Value* v : a) out.push_back(F32ToScale(b_, v));
      return out;
    case DType::kUE4M3: {
      Regs positive;  // a NaN stays one: it is not less than 0
      for (llvm::Value* v : a)
        positive.push_back(b_.CreateSelect(b_.CreateFCmpOLT(v, F32(0)), F32(0), v));
      for (llvm::Value* v : FromF32(positive, DType::kE4M3)) out.push_back(b_.CreateAnd(v, 0x7f));
      return out;
    }
    case DType::kE4M3:
    case DType::kE5M2:
      if (!options_.machine->Has("fp8_conversions")) {
        for (llvm::Value* v : a) out.push_back(F32ToSmallFloat(b_, v, d));
        return out;
      }
      for (size_t i = 0; i < a.size(); i += 2) {
        const bool two = i + 1 < a.size();
        llvm::Value* pair =
            CallPtx(b_, d == DType::kE4M3 ? PtxInst::kCvtE4m3x2F32 : PtxInst::kCvtE5m2x2F32,
                    {two ? a[i + 1] : F32(0), a[i]});
        out.push_back(b_.CreateTrunc(pair, b_.getInt8Ty()));
        if (two) out.push_back(b_.CreateTrunc(b_.CreateLShr(pair, 8), b_.getInt8Ty()));
      }
      return out;
    case DType::kF64:
      for (llvm::Value* v : a) out.push_back(b_.CreateFPExt(v, b_.getDoubleTy()));
      return out;
    default: return a;
  }
}

// An f32 that rounds to any narrower float as `a` itself would: truncated, the last bit set if
// anything was lost (round to odd). What is seen to lose nothing is converted as it is: the test
// costs six instructions, and ptxas keeps the integers of a whole tile beside their f32 for it.
llvm::Value* Emitter::OddRounded(llvm::Value* a, DType from) {
  llvm::Value* cut = nullptr;
  llvm::Value* lost = nullptr;
  if (from == DType::kF64) {
    cut = CallPtx(b_, PtxInst::kCvtRzF32F64, {a});
    lost = b_.CreateFCmpONE(b_.CreateFPExt(cut, b_.getDoubleTy()), a);
  } else {
    const bool sign = ir::IsSigned(from), wide = ir::ByteSize(from) == 8;
    if (FitsF32(a, sign, b_.GetInsertBlock()->getDataLayout()))
      return sign ? b_.CreateSIToFP(a, b_.getFloatTy()) : b_.CreateUIToFP(a, b_.getFloatTy());
    cut = CallPtx(b_,
                  wide ? (sign ? PtxInst::kCvtRzF32S64 : PtxInst::kCvtRzF32U64)
                       : (sign ? PtxInst::kCvtRzF32S32 : PtxInst::kCvtRzF32U32),
                  {a});
    llvm::Value* back = CallPtx(b_,
                                wide ? (sign ? PtxInst::kCvtS64F32 : PtxInst::kCvtU64F32)
                                     : (sign ? PtxInst::kCvtS32F32 : PtxInst::kCvtU32F32),
                                {cut});
    lost = b_.CreateICmpNE(back, a);
  }
  llvm::Value* bits = b_.CreateBitCast(cut, b_.getInt32Ty());
  bits = b_.CreateOr(bits, b_.CreateZExt(lost, b_.getInt32Ty()));
  return b_.CreateBitCast(bits, b_.getFloatTy());
}

// Truncates towards zero and saturates; NaN gives 0.
llvm::Value* Emitter::FloatToInt(llvm::Value* a, DType from, DType to) {
  const bool f64 = from == DType::kF64, sign = ir::IsSigned(to);
  const int size = ir::ByteSize(to);
  PtxInst inst = PtxInst::kCvtS32F32;
  if (size == 8)
    inst = f64 ? (sign ? PtxInst::kCvtS64F64 : PtxInst::kCvtU64F64)
               : (sign ? PtxInst::kCvtS64F32 : PtxInst::kCvtU64F32);
  else
    inst = f64 ? (sign ? PtxInst::kCvtS32F64 : PtxInst::kCvtU32F64)
               : (sign ? PtxInst::kCvtS32F32 : PtxInst::kCvtU32F32);
  llvm::Value* v = CallPtx(b_, inst, {a});
  if (f64 || size == 8)  // other forms give 0 for NaN themselves
    v = b_.CreateSelect(b_.CreateFCmpUNO(a, a), llvm::ConstantInt::get(v->getType(), 0), v);
  if (size >= 4) return v;
  const int bits = 8 * size;
  auto clamp = [&](llvm::Intrinsic::ID id, int64_t bound) {
    v = b_.CreateBinaryIntrinsic(id, v, I32(bound));
  };
  if (sign) {
    clamp(llvm::Intrinsic::smin, (int64_t{1} << (bits - 1)) - 1);
    clamp(llvm::Intrinsic::smax, -(int64_t{1} << (bits - 1)));
  } else {
    clamp(llvm::Intrinsic::umin, (int64_t{1} << bits) - 1);
  }
  return b_.CreateTrunc(v, ElementType(to));
}

llvm::Value* Emitter::CastOne(llvm::Value* a, DType from, DType to) {
  if (from == to || (IsWordFloat(from) && IsWordFloat(to))) return a;
  if (from == DType::kBool) {
    if (ir::IsFloat(to)) return b_.CreateSelect(a, ConstantOf(to, ir::AttrValue(1.0)), Zero(to));
    return b_.CreateZExt(a, ElementType(to));
  }
  if (to == DType::kBool) {
    if (!ir::IsFloat(from)) return b_.CreateICmpNE(a, Zero(from));
    if (from == DType::kF64) return b_.CreateFCmpUNE(a, Zero(from));
    return b_.CreateFCmpUNE(ToF32({a}, from)[0], F32(0));
  }
  if (!ir::IsFloat(from) && !ir::IsFloat(to)) {
    return ir::IsSigned(from) ? b_.CreateSExtOrTrunc(a, ElementType(to))
                              : b_.CreateZExtOrTrunc(a, ElementType(to));
  }
  if (!ir::IsFloat(to)) {
    if (from == DType::kF64) return FloatToInt(a, from, to);
    return FloatToInt(ToF32({a}, from)[0], DType::kF32, to);
  }
  if (!ir::IsFloat(from)) {
    llvm::Type* word = IsNarrowFloat(to) || IsWordFloat(to) ? b_.getFloatTy() : b_.getDoubleTy();
    if (word->isFloatTy())
      if (llvm::Value* small = SmallIntToF32(b_, a, ir::IsSigned(from)))
        return IsNarrowFloat(to) ? FromF32({small}, to)[0] : small;
    if (IsNarrowFloat(to) && ir::ByteSize(from) >= 4) return FromF32({OddRounded(a, from)}, to)[0];
    llvm::Value* v = ir::IsSigned(from) ? b_.CreateSIToFP(a, word) : b_.CreateUIToFP(a, word);
    return IsNarrowFloat(to) ? FromF32({v}, to)[0] : v;
  }
  if (from == DType::kF64 && IsNarrowFloat(to)) return FromF32({OddRounded(a, from)}, to)[0];
  return FromF32(ToF32({a}, from), to)[0];
}

// All of them, two at a time; empty: some have too many bits.
Regs Emitter::FewBits(const Regs& a, DType from, DType to) {
  Regs out;
  if (!ir::IsInteger(from) || (to != DType::kF16 && to != DType::kBF16) || a.size() % 2) return out;
  for (size_t i = 0; i < a.size(); i += 2) {
    llvm::Value* pair = SmallIntsToPair(
        b_, a[i], a[i + 1],
        {ir::IsSigned(from), to == DType::kF16, options_.machine->Has("bf16_arithmetic")});
    if (!pair) return {};
    out.push_back(b_.CreateTrunc(pair, b_.getInt16Ty()));
    out.push_back(b_.CreateTrunc(b_.CreateLShr(pair, 16), b_.getInt16Ty()));
  }
  return out;
}

// An integer of a word that an f32 holds, on its way to a narrower float: what its ops and the
// loops that carry it say, where LLVM sees no further than a loop or shared memory (OddRounded).
bool Emitter::LosesNothing(ir::ValueId v, DType to) const {
  constexpr int64_t kExact = int64_t{1} << 24;
  const DType from = fn_.type(v).dtype;
  if (!ir::IsInteger(from) || ir::ByteSize(from) < 4 || !IsNarrowFloat(to)) return false;
  const ir::KnownRange range = ir::RangeOf(fn_, v);
  return range && range->least >= -kExact && range->most <= kExact;
}

Regs Emitter::Cast(const Regs& a, DType from, DType to, bool exact) {
  const bool through_f32 = ir::IsFloat(from) && ir::IsFloat(to) && from != to;
  if (through_f32 && !(from == DType::kF64 && IsNarrowFloat(to)))
    return FromF32(ToF32(a, from), to);
  if (IsNarrowFloat(to) && from != to) {  // pairs of conversions
    if (Regs pairs = FewBits(a, from, to); !pairs.empty()) return pairs;
    Regs words;
    for (llvm::Value* v : a) {
      llvm::Value* small = ir::IsInteger(from) ? SmallIntToF32(b_, v, ir::IsSigned(from)) : nullptr;
      if (small)
        words.push_back(small);
      else if (exact)
        words.push_back(ir::IsSigned(from) ? b_.CreateSIToFP(v, b_.getFloatTy())
                                           : b_.CreateUIToFP(v, b_.getFloatTy()));
      else if (from == DType::kF64 || (ir::IsInteger(from) && ir::ByteSize(from) >= 4))
        words.push_back(OddRounded(v, from));
      else
        words.push_back(CastOne(v, from, DType::kF32));
    }
    return FromF32(words, to);
  }
  Regs out;
  for (llvm::Value* v : a) out.push_back(CastOne(v, from, to));
  return out;
}

}  // namespace tilec::backend
