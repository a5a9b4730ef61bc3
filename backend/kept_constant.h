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

// `bits`, made once where the function begins, whatever asks for it.
llvm::Value* KeptConstant(llvm::IRBuilder<>& b, uint32_t bits);

}  // namespace tilec::backend
