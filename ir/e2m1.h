// e2m1, numbers of four bits (OCP MX 1.0, table 5): a sign, two bits of exponent, one of fraction:
// 0, 0.5, 1, 1.5, 2, 3, 4, 6. Two of them lie in an element of dtype e2m1x2, the even one in the
// low half. No op knows them: they are taken apart and put together by integer ops.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/function.h"

namespace tilec::ir {

// Value of the low four bits.
double E2M1Value(int64_t bits);

// `codes`: a tile of i32, of which the low four bits are read; its numbers as f32, exactly.
ValueId DecodeE2M1(Builder& b, ValueId codes);
// A tile of f32 to the nearest codes (i32), ties to the even one; what is larger becomes ±6, NaN 6.
ValueId EncodeE2M1(Builder& b, ValueId values);

}  // namespace tilec::ir
