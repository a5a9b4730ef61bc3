// SPDX-License-Identifier: Apache-2.0
#include "backend/small_floats.h"

#include "backend/ptx_asm.h"

namespace tilec::backend {

namespace {

// Bits of the mantissa, the exponent's bias and the codes (without a sign) of the largest number
// and of NaN. PTX ISA, alternate floating-point formats.
struct SmallFormat {
  unsigned mantissa;
  int bias;
  uint32_t largest, nan;
};

SmallFormat SmallFormatOf(ir::DType d) {
  return d == ir::DType::kE4M3 ? SmallFormat{3, 7, 0x7e, 0x7f} : SmallFormat{2, 15, 0x7b, 0x7f};
}

constexpr unsigned kMantissaF32 = 23;
constexpr int kBiasF32 = 127;
constexpr int kBiasF16 = 15;
constexpr unsigned kMantissaF16 = 10;

}  // namespace

// The exponent and mantissa of either format, moved to where those of f16 are, are its value but
// for the difference of the biases: for its subnormal numbers, too.
llvm::Value* SmallFloatToF32(llvm::IRBuilder<>& b, llvm::Value* v, ir::DType from) {
  const SmallFormat format = SmallFormatOf(from);
  llvm::Type* half = b.getInt16Ty();
  llvm::Value* code = b.CreateZExt(v, half);
  llvm::Value* sign = b.CreateShl(b.CreateAnd(code, b.getInt16(0x80)), 8);
  llvm::Value* rest = b.CreateAnd(code, b.getInt16(0x7f));
  llvm::Value* bits = b.CreateOr(sign, b.CreateShl(rest, kMantissaF16 - format.mantissa));
  llvm::Value* value = CallPtx(b, PtxInst::kCvtF32F16, {bits});
  if (format.bias == kBiasF16) return value;  // its infinities and NaN are f16's
  const double scale = static_cast<double>(1 << (kBiasF16 - format.bias));
  value = b.CreateFMul(value, llvm::ConstantFP::get(b.getFloatTy(), scale));
  return b.CreateSelect(b.CreateICmpEQ(rest, b.getInt16(static_cast<uint16_t>(format.nan))),
                        llvm::ConstantFP::getNaN(b.getFloatTy()), value);
}

llvm::Value* F32ToSmallFloat(llvm::IRBuilder<>& b, llvm::Value* v, ir::DType to) {
  const SmallFormat format = SmallFormatOf(to);
  llvm::Type* word = b.getInt32Ty();
  const auto i32 = [&](int64_t value) { return b.getInt32(static_cast<uint32_t>(value)); };
  llvm::Value* all = b.CreateBitCast(v, word);
  llvm::Value* bits = b.CreateAnd(all, i32(0x7fffffff));
  // Normal numbers: half of the last place that stays, less one bit where that place is even, and
  // what is below it cut off. The carry goes into the exponent where it must.
  const unsigned cut = kMantissaF32 - format.mantissa;
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(bits, cut), i32(1));
  llvm::Value* sum = b.CreateAdd(b.CreateAdd(bits, i32((int64_t{1} << (cut - 1)) - 1)), odd);
  llvm::Value* normal =
      b.CreateSub(b.CreateLShr(sum, cut), i32((kBiasF32 - format.bias) << format.mantissa));
  // Subnormal ones: multiples of the smallest. Added to the power of two whose last place that is,
  // they are rounded to one and counted in its last bits.
  const int smallest = 1 - format.bias - static_cast<int>(format.mantissa);  // its exponent
  llvm::Value* magic = b.CreateBitCast(
      i32(int64_t{smallest + static_cast<int>(kMantissaF32) + kBiasF32} << kMantissaF32),
      b.getFloatTy());
  llvm::Value* counted =
      b.CreateBitCast(b.CreateFAdd(b.CreateBitCast(bits, b.getFloatTy()), magic), word);
  llvm::Value* subnormal = b.CreateAnd(counted, i32(0xff));
  llvm::Value* small =
      b.CreateICmpULT(bits, i32(int64_t{1 - format.bias + kBiasF32} << kMantissaF32));
  llvm::Value* code = b.CreateSelect(small, subnormal, normal);
  code = b.CreateSelect(b.CreateICmpUGT(code, i32(format.largest)), i32(format.largest), code);
  llvm::Value* is_nan = b.CreateICmpUGT(bits, i32(0x7f800000));
  code = b.CreateSelect(is_nan, i32(format.nan), code);
  llvm::Value* sign = b.CreateAnd(b.CreateLShr(all, 24), i32(0x80));
  return b.CreateTrunc(b.CreateOr(code, sign), b.getInt8Ty());
}

llvm::Value* ScaleToF32(llvm::IRBuilder<>& b, llvm::Value* v) {
  llvm::Value* bits = b.CreateShl(b.CreateZExt(v, b.getInt32Ty()), kMantissaF32);
  bits =
      b.CreateSelect(b.CreateICmpEQ(v, b.getInt8(0)), b.getInt32(1u << (kMantissaF32 - 1)), bits);
  return b.CreateSelect(b.CreateICmpEQ(v, b.getInt8(0xff)),
                        llvm::ConstantFP::getNaN(b.getFloatTy()),
                        b.CreateBitCast(bits, b.getFloatTy()));
}

llvm::Value* F32ToScale(llvm::IRBuilder<>& b, llvm::Value* v) {
  constexpr uint32_t kInfinity = 0x7f800000, kLargest = 0xfe, kNan = 0xff;
  llvm::Value* bits = b.CreateAnd(b.CreateBitCast(v, b.getInt32Ty()), b.getInt32(0x7fffffff));
  llvm::Value* code = b.CreateBinaryIntrinsic(
      llvm::Intrinsic::umin, b.CreateLShr(bits, kMantissaF32), b.getInt32(kLargest));
  llvm::Value* is_nan = b.CreateICmpUGT(bits, b.getInt32(kInfinity));
  return b.CreateTrunc(b.CreateSelect(is_nan, b.getInt32(kNan), code), b.getInt8Ty());
}

}  // namespace tilec::backend
