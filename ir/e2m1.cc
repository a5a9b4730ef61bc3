// SPDX-License-Identifier: Apache-2.0
#include "ir/e2m1.h"

#include <iterator>

namespace tilec::ir {

namespace {
constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
constexpr int64_t kSign = 8, kCodes = 7;

Type Like(Builder& b, ValueId v, DType d) {
  Type type = b.fn().type(v);
  type.dtype = d;
  return type;
}
ValueId Word(Builder& b, ValueId like, int64_t n) {
  return b.Constant(Like(b, like, DType::kI32), static_cast<double>(n));
}
}  // namespace

double E2M1Value(int64_t bits) { return (bits & kSign ? -1 : 1) * kValues[bits & kCodes]; }

// Exponent and fraction, moved to where f32 has them, are the number but for the bias, where the
// exponent is not 0.
ValueId DecodeE2M1(Builder& b, ValueId codes) {
  const Type f32 = Like(b, codes, DType::kF32);
  const auto word = [&](int64_t n) { return Word(b, codes, n); };
  const ValueId size = b.Binary(OpKind::kAnd, codes, word(kCodes));
  const ValueId bits =
      b.Binary(OpKind::kAdd, b.Binary(OpKind::kShl, size, word(22)), word(int64_t{126} << 23));
  const ValueId normal = b.Value(OpKind::kBitcast, {bits}, f32);
  const ValueId small = b.Binary(OpKind::kMul, b.Cast(size, DType::kF32), b.Constant(f32, 0.5));
  const ValueId value = b.Value(OpKind::kSelect, {b.Cmp("lt", size, word(2)), small, normal}, f32);
  const ValueId sign = b.Binary(OpKind::kAnd, codes, word(kSign));
  return b.Value(OpKind::kSelect, {b.Cmp("eq", sign, word(0)), value, b.Unary(OpKind::kNeg, value)},
                 f32);
}

// Between code i and the next lies the middle of their values; a tie goes to the even one.
ValueId EncodeE2M1(Builder& b, ValueId values) {
  const Type f32 = b.fn().type(values), i32 = Like(b, values, DType::kI32);
  const auto word = [&](int64_t n) { return Word(b, values, n); };
  const ValueId size = b.Unary(OpKind::kAbs, values);
  ValueId code = word(kCodes);
  for (int64_t i = kCodes; i-- > 0;) {
    const ValueId middle = b.Constant(f32, (kValues[i] + kValues[i + 1]) / 2);
    const ValueId below = b.Cmp(i % 2 == 0 ? "le" : "lt", size, middle);
    code = b.Value(OpKind::kSelect, {below, word(i), code}, i32);
  }
  const ValueId negative = b.Cmp("lt", values, b.Constant(f32, 0));
  return b.Value(OpKind::kSelect, {negative, b.Binary(OpKind::kOr, code, word(kSign)), code}, i32);
}

}  // namespace tilec::ir
