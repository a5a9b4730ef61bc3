// Which columns of tensor memory an op touches, and which warpgroups of the role do: read from the
// rows of warp_ops.def, not from the verifier's code, whose mistakes it would repeat.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

struct ColumnRun {
  int64_t first = 0, end = 0;  // from the address of the op on
  bool write = false;
  int group = -1;  // the warpgroup that touches them; -1: all
};

std::vector<ColumnRun> ColumnsOf(const Function& fn, const Op& op, int warps);

}  // namespace tilec::ir
