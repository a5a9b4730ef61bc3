// What planning a launch by names (launch.cc) and by places (quick_plan.cc) share: limits of the
// driver, and how one number is packed. Private to runtime/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel_image.h"
#include "runtime/launch.h"

namespace tilec::runtime {

constexpr int64_t kMaxGrid[3] = {2147483647, 65535, 65535};
constexpr int kMaxBlock = 1024;
constexpr uint64_t kMaxTmaStride = 1ull << 40;
constexpr uint64_t kMaxTmaExtent = 1ull << 32;
constexpr int64_t kMaxTmaBox = 256;
constexpr int64_t kTmaAlign = 16;     // bytes; of bases and strides
constexpr int kTmaPromotion = 256;    // bytes
constexpr int kScratchHalf = 256;     // bytes; inputs read the first half, outputs the second
constexpr uint64_t kWorkAlign = 256;  // bytes; of each tensor of the work

// Is `given` what `wanted` says, perhaps under another name?
bool AcceptsDType(std::string_view wanted, std::string_view given);

// What both say of one dim of a tensor. May a dim be 2^31 or more? If all of its names are `wide`.
bool IsWideDim(const Expr& dim, const std::vector<std::string>& wide);
// Would elements of an output lie on top of each other?
inline bool Overlaps(int64_t extent, int64_t stride, backend::Direction direction) {
  return stride == 0 && extent > 1 && direction != backend::Direction::kIn;
}
// Do elements of the last dim lie side by side, where they must?
inline bool LiesDense(const backend::TensorArg& arg, int64_t last_extent, int64_t last_step) {
  return arg.strided_any || last_extent <= 1 || last_step == 1;
}

// The box as the driver wants it: what a copy steps over counts.
inline std::vector<uint32_t> BoxOf(const backend::TensorMapRecipe& recipe) {
  std::vector<uint32_t> box(recipe.box.begin(), recipe.box.end());
  for (size_t i = 0; i < recipe.steps.size(); ++i) box[i] *= static_cast<uint32_t>(recipe.steps[i]);
  return box;
}

// `value` as an argument of type `dtype`; false if it is none.
bool PackScalar(const ScalarValue& value, std::string_view dtype, KernelArg* arg);

}  // namespace tilec::runtime
