// Makes graphs smaller without changing what there is to decide.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scheduler/extract.h"

namespace tilec::scheduler {

// An op too small to matter (its issue is at most 1/32 of the largest) whose value only one op of
// the same iteration, slice and width reads becomes part of that op: its work is done first, its
// inputs become inputs. Both then run back to back in one role, which costs at most the small op's
// own time. Names, kinds and places are those of the reader.
void ContractSmallOps(Extraction* loop);

// One op that does the work of `first`, then that of `second`, which reads it; it keeps the place
// and the name of `named`, one of them. Its value is that of both, where both are read.
void MergeOps(Extraction* loop, int first, int second, int named);

}  // namespace tilec::scheduler
