// Random tensors for `run`, `test` and `check`: integers over the whole range that their use
// allows.
//
// What an integer tensor may hold depends on what the kernel does with it, so its tile IR is asked:
//   1. positions of a tensor's dim: 0 … extent − 1 (over the factor they are multiplied by);
//      positions that are stored to are all different where there is room, since two instances
//      must not store one element;
//   2. bounds of loops and what is compared with positions (lengths, labels): 0 … an extent of the
//      call; ascending if both bounds of one loop come from the tensor (offsets);
//   3. data that becomes floating point: the whole range of 8 bits, else at most 16 bits;
//   4. all else: the whole range of the dtype, small and large magnitudes alike.
// A quarter of the elements of a tensor that is compared with a constant are that constant.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/frontend.h"
#include "ir/function.h"
#include "ir/interpret.h"

namespace tilec::tools {

// What a kernel does with the integers of one tensor.
struct IntegerUse {
  int64_t positions = 0;  // > 0: they index a dim, and must be less
  bool stored_to = false;
  bool bound = false;  // of a loop, or compared with positions
  bool both_bounds = false;
  bool becomes_float = false;
  std::vector<int64_t> constants;  // compared with
};

// `shapes`: of every tensor of the call, by name.
using Shapes = std::map<std::string, std::vector<int64_t>>;
std::map<std::string, IntegerUse> IntegerUses(const ir::Function& fn, const Shapes& shapes);

// Reproducible from `seed`. Floats and bools are TensorValue::Random's.
ir::TensorValue RandomTensor(ir::DType dtype, const std::vector<int64_t>& dims,
                             const IntegerUse& use, const Shapes& shapes, uint64_t seed);

// What a test says that a tensor holds; kFile is not for here. Reproducible from `seed`.
Result<ir::TensorValue> MadeTensor(const std::string& name, ir::DType dtype,
                                   const std::vector<int64_t>& dims,
                                   const frontend::TestInput& input, uint64_t seed,
                                   DiagSink& diags);

}  // namespace tilec::tools
