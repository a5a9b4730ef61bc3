// How PTX calls the types that matrix units multiply: the same words for every unit (PTX ISA,
// ".atype").
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/type.h"

namespace tilec::backend {

// nullptr: no unit multiplies it.
inline const char* ProductType(ir::DType d) {
  constexpr struct {
    ir::DType dtype;
    const char* name;
  } kTypes[] = {{ir::DType::kBF16, "bf16"}, {ir::DType::kF16, "f16"},   {ir::DType::kTF32, "tf32"},
                {ir::DType::kE4M3, "e4m3"}, {ir::DType::kE5M2, "e5m2"}, {ir::DType::kI8, "s8"},
                {ir::DType::kU8, "u8"}};
  for (const auto& type : kTypes)
    if (type.dtype == d) return type.name;
  return nullptr;
}

}  // namespace tilec::backend
