// Is a kernel nothing but a matrix product? Then `tilec bench` can ask a vendor's library to do the
// same. Only reports: nothing is compiled differently for it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "ir/function.h"

namespace tilec::tools {

// C[m, n] = Σ over k of A · B, each dense and row-major. `turned`: A is stored [K, M], B [N, K].
struct Product {
  std::string a, b, c;  // names of the tensors
  bool a_turned = false, b_turned = false;
  ir::DType in = ir::DType::kBF16, out = ir::DType::kBF16;
};

std::optional<Product> FindProduct(const ir::Function& tile);

}  // namespace tilec::tools
