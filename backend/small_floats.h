// Conversions of 8-bit floats where the GPU has none (before sm_89): a dozen integer instructions
// for what one does later, bit for bit the same but for the payload of NaN. And of ue8m0, whose
// code is the exponent of an f32.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "ir/type.h"

namespace tilec::backend {

// `v`: i8, an e4m3 or e5m2; as f32, exactly.
llvm::Value* SmallFloatToF32(llvm::IRBuilder<>& b, llvm::Value* v, ir::DType from);

// The nearest e4m3 or e5m2 (i8), ties to even; what is too large, infinities included, becomes the
// largest number, NaN stays NaN.
llvm::Value* F32ToSmallFloat(llvm::IRBuilder<>& b, llvm::Value* v, ir::DType to);

// `v`: i8, a ue8m0: a power of two as f32, exactly (2^-127 is subnormal), or NaN.
llvm::Value* ScaleToF32(llvm::IRBuilder<>& b, llvm::Value* v);
// The largest ue8m0 (i8) that is not above |v|; 0 becomes the least, infinity the largest.
llvm::Value* F32ToScale(llvm::IRBuilder<>& b, llvm::Value* v);

}  // namespace tilec::backend
