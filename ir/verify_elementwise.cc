// The verifier's rules for ops that work element by element, and for constants: what types they
// admit (ops.def).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/queries.h"
#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {

bool Verifier::CheckElementwise(const Op& op) {
  const Type& out = Out(op);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Type& t = Operand(op, i);
    if (!t.is_tile())
      return Fail(kVerifyType, op, fmt::format("operand {} is {}, not a tile", i, Show(t)));
    if (t.shape != out.shape)
      return Fail(kVerifyType, op,
                  fmt::format("operand {} is {}, the result {}; shapes must be equal", i, Show(t),
                              Show(out)));
    if (t.layout != out.layout)
      return Fail(kVerifyLayout, op,
                  fmt::format("operand {} is {}, the result {}; layouts must be equal", i, Show(t),
                              Show(out)));
  }
  const DType a = Operand(op, 0).dtype;
  auto need = [&](bool ok, const char* what) {
    return ok || Fail(kVerifyType, op, fmt::format("{}; its type is {}", what, Spelling(a)));
  };
  auto same = [&] {
    for (size_t i = 1; i < op.operands.size(); ++i)
      if (Operand(op, i).dtype != a)
        return Fail(kVerifyType, op,
                    fmt::format("operands are {} and {}; they must be equal", Spelling(a),
                                Spelling(Operand(op, i).dtype)));
    return true;
  };
  auto result_is = [&](DType d) {
    return out.dtype == d ||
           Fail(kVerifyType, op,
                fmt::format("the result is {}, not {}", Spelling(out.dtype), Spelling(d)));
  };
  switch (op.kind) {
    case OpKind::kNeg:
    case OpKind::kAbs: return need(IsNumeric(a), "it takes numbers") && result_is(a);
    case OpKind::kNot: return need(!IsFloat(a), "it takes bool or integers") && result_is(a);
    case OpKind::kFloor:
    case OpKind::kCeil:
    case OpKind::kRound:
    case OpKind::kExp2:
    case OpKind::kExp:
    case OpKind::kLog2:
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kSqrtRn:
    case OpKind::kRsqrt:
    case OpKind::kTanh:
    case OpKind::kSigmoid:
    case OpKind::kErf:
    case OpKind::kSin:
    case OpKind::kCos: return need(IsFloat(a), "it takes floats") && result_is(a);
    case OpKind::kCast: return true;
    case OpKind::kBitcast:
      return (Info(a).bits == Info(out.dtype).bits && IsNumeric(a) && IsNumeric(out.dtype)) ||
             Fail(kVerifyType, op,
                  fmt::format("{} and {} differ in size, or are bool", Spelling(a),
                              Spelling(out.dtype)));
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kMin:
    case OpKind::kMax: return need(IsNumeric(a), "it takes numbers") && same() && result_is(a);
    case OpKind::kDivRn: return need(IsFloat(a), "it takes floats") && same() && result_is(a);
    case OpKind::kMod: return need(IsInteger(a), "it takes integers") && same() && result_is(a);
    case OpKind::kAnd:
    case OpKind::kOr:
    case OpKind::kXor:
      return need(!IsFloat(a), "it takes bool or integers") && same() && result_is(a);
    case OpKind::kShl:
    case OpKind::kShr: return need(IsInteger(a), "it takes integers") && same() && result_is(a);
    case OpKind::kCmp: {
      const std::string& pred = op.s("pred");
      if (!OneOf(pred, {"eq", "ne", "lt", "le", "gt", "ge"}))
        return Fail(kVerifyForm, op,
                    fmt::format("pred is \"{}\"; it is eq ne lt le gt or ge", pred));
      if (IsBool(a) && !OneOf(pred, {"eq", "ne"}))
        return Fail(kVerifyType, op, fmt::format("bool has no order for \"{}\"", pred));
      return same() && result_is(DType::kBool);
    }
    case OpKind::kSelect:
      if (!IsBool(a)) return need(false, "the condition is a bool tile");
      if (Operand(op, 1).dtype != Operand(op, 2).dtype)
        return Fail(kVerifyType, op,
                    fmt::format("it chooses between {} and {}", Show(Operand(op, 1)),
                                Show(Operand(op, 2))));
      return result_is(Operand(op, 1).dtype);
    case OpKind::kFma: return need(IsFloat(a), "it takes floats") && same() && result_is(a);
    case OpKind::kConstant:  // not elementwise: CheckTypes sends them elsewhere
    case OpKind::kIota:
    case OpKind::kBroadcast:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kRearrange:
    case OpKind::kReduce:
    case OpKind::kArgReduce:
    case OpKind::kScan:
    case OpKind::kDot:
    case OpKind::kLoad:
    case OpKind::kStore:
    case OpKind::kAtomic:
    case OpKind::kParallel:
    case OpKind::kFor:
    case OpKind::kWhile:
    case OpKind::kIf:
    case OpKind::kYield:
    case OpKind::kClusterReduce:
    case OpKind::kAssert:
    case OpKind::kPrint:
#define OP(Name, ...) case OpKind::k##Name:
#include "ir/warp_ops.def"
#undef OP
      break;
  }
  UNREACHABLE("CheckElementwise: no rule for an elementwise row");
}

bool Verifier::CheckConstant(const Op& op) {
  const Type& out = Out(op);
  if (!out.is_tile()) return Fail(kVerifyType, op, "the result is not a tile");
  const AttrValue& value = *op.attr("value");
  if (!IsFloat(out.dtype)) {
    const int64_t* n = std::get_if<int64_t>(&value);
    if (!n)
      return Fail(kVerifyForm, op, fmt::format("the value of {} is not an integer", Show(out)));
    const int bits = Info(out.dtype).bits;
    const int64_t low = IsSigned(out.dtype) && bits < 64 ? -(int64_t{1} << (bits - 1)) : 0;
    const int64_t high = IsBool(out.dtype) ? 1
                         : IsSigned(out.dtype)
                             ? (int64_t{1} << (bits - 2)) - 1 + (int64_t{1} << (bits - 2))
                             : (bits < 64 ? (int64_t{1} << bits) - 1 : 0);
    if (bits < 64 && (*n < low || *n > high))
      return Fail(kVerifyForm, op, fmt::format("{} does not fit {}", *n, Spelling(out.dtype)));
  }
  return true;
}

}  // namespace tilec::ir::verify_internal
