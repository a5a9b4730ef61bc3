// Types that a kernel stores and loads but does not compute in.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tilec::fuzz {

using ir::DType;

inline bool StorageOnly(DType d) {
  return d == DType::kE4M3 || d == DType::kE5M2 || d == DType::kTF32;
}

}  // namespace tilec::fuzz
