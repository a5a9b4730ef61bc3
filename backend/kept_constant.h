// A constant that a loop's instructions read from a register of its own.
//
// An instruction of the GPU has room for one number in its text, so of two constant operands one
// is moved to a register; ptxas does that anew in front of each use. (Of 32 pairs of weights that
// were put behind the bits of a float, each cost a move: a tenth of all instructions.) What ptxas
// does not see to be a constant it keeps: bits are added that no lane of a warp has.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>

namespace tilec::backend {

// An attribute of functions whose constants ptxas sees. It has registers to spare where one CTA has
// the SM and a thread's sums are few; there what it makes of shown constants is faster (H200, us,
// kept and shown, 28672 x 16384 weights of four bits: 64 rows, 32 sums, 213 and 171; 4096 rows, 128
// sums, 4980 and 5670; GPTQ of 8192 x 8192 790 and 893; 16 rows, two CTAs, 100 and 105).
inline constexpr const char* kShowsConstants = "tilec-shows-constants";

// `bits`, made once where the function begins, whatever asks for it; the constant itself in a
// function that shows them.
llvm::Value* KeptConstant(llvm::IRBuilder<>& b, uint32_t bits);

}  // namespace tilec::backend
