// Accesses of neighbouring elements that go together: X[…, 0] and X[…, 1] are two tiles, but in
// memory one word of each pair.
//
// Interleaved data (rotary pairs, complex numbers) is read and written so. One by one, each access
// of a warp touches every sector for half of its bytes, and a store of half a sector is a write of
// its own in L2; together they are one access of twice the width.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::backend {

// The gload or gstore of the same block at the other element of each pair, if both may go as one:
// the same tensor, layout and positions but for the last dim's, which are an even constant and the
// one behind it; words of pairs are aligned and lie in the tensor as a whole; nothing in between
// accesses the tensor. Null: there is none.
const ir::Op* PairOf(const ir::Function& fn, const ir::Op& op);
// Is it the one at the even place?
bool IsEven(const ir::Function& fn, const ir::Op& op);
// Does the other one stand in front of it?
bool StandsBehind(const ir::Function& fn, const ir::Op& op, const ir::Op& other);

}  // namespace tilec::backend
