// A shared library needs a source of its own; everything is in the archives behind it.
//
// SPDX-License-Identifier: Apache-2.0
#include "include/tilec/tilec.h"

namespace tilec {

static_assert(static_cast<int>(DType::kE5M2) == 15, "the numbers are part of the binary interface");

}  // namespace tilec
