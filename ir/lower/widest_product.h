// Registers of one instruction of products, for whoever lowers a program and for whoever compares
// tile sizes before that. The assembler wants an instruction's accumulators, and some more, of what
// each thread has at launch, however many a role is given later: three compute warpgroups and a
// role that copies have 128 a thread, which are instructions of 200 columns at most. A tile that
// wants more loses its roles (I328), so it must not look good by its size.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::ir {

// Registers of a thread at launch that a warpgroup's instruction of `columns` needs, 64 rows high
// (PTX ISA, asynchronous warpgroup products).
int64_t RegistersOfInstruction(int64_t columns, DType sum, const Target& target);

// Does some product of this tile function need more than its threads have where a role copies for
// them? Never where products are not a warpgroup's.
bool WantsTooWideInstruction(const Function& fn, const Target& target);

// Among how many warpgroups the blocks of so many rows of a product divide: 2, 3, or 1, whatever
// its columns say (ir/lower/plan.cc).
int WarpgroupsOfRows(int64_t rows, const Target& target);

// Would it, of so many rows and columns?
bool TooWideInRows(int64_t rows, int64_t columns, DType sum, const Target& target);

}  // namespace tilec::ir
