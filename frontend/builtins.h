// One row per built-in function that is an elementwise op: name, op, operands, what it accepts.
// Functions with rules of their own (reductions, select, dot, …) are named in lower_call.cc.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "ir/op_info.h"

namespace tilec::frontend {

enum class Accepts { kFloats, kNumbers, kIntegers };

struct Builtin {
  const char* name;
  ir::OpKind op;
  int operands;
  Accepts accepts;
};

inline constexpr Builtin kBuiltins[] = {
    {"exp2", ir::OpKind::kExp2, 1, Accepts::kFloats},
    {"exp", ir::OpKind::kExp, 1, Accepts::kFloats},
    {"log2", ir::OpKind::kLog2, 1, Accepts::kFloats},
    {"log", ir::OpKind::kLog, 1, Accepts::kFloats},
    {"sqrt", ir::OpKind::kSqrt, 1, Accepts::kFloats},
    {"sqrt_rn", ir::OpKind::kSqrtRn, 1, Accepts::kFloats},
    {"rsqrt", ir::OpKind::kRsqrt, 1, Accepts::kFloats},
    {"tanh", ir::OpKind::kTanh, 1, Accepts::kFloats},
    {"sigmoid", ir::OpKind::kSigmoid, 1, Accepts::kFloats},
    {"erf", ir::OpKind::kErf, 1, Accepts::kFloats},
    {"sin", ir::OpKind::kSin, 1, Accepts::kFloats},
    {"cos", ir::OpKind::kCos, 1, Accepts::kFloats},
    {"floor", ir::OpKind::kFloor, 1, Accepts::kFloats},
    {"ceil", ir::OpKind::kCeil, 1, Accepts::kFloats},
    {"round", ir::OpKind::kRound, 1, Accepts::kFloats},
    {"abs", ir::OpKind::kAbs, 1, Accepts::kNumbers},
    {"min", ir::OpKind::kMin, 2, Accepts::kNumbers},
    {"max", ir::OpKind::kMax, 2, Accepts::kNumbers},
    {"fma", ir::OpKind::kFma, 3, Accepts::kFloats},
    {"div_rn", ir::OpKind::kDivRn, 2, Accepts::kFloats},
    {"bit_and", ir::OpKind::kAnd, 2, Accepts::kIntegers},
    {"bit_or", ir::OpKind::kOr, 2, Accepts::kIntegers},
    {"bit_xor", ir::OpKind::kXor, 2, Accepts::kIntegers},
    {"bit_not", ir::OpKind::kNot, 1, Accepts::kIntegers},
    {"shl", ir::OpKind::kShl, 2, Accepts::kIntegers},
    {"shr", ir::OpKind::kShr, 2, Accepts::kIntegers},
};

inline constexpr const char* kSpecials[] = {
    "sum",        "prod",       "any",        "all",        "argmax",    "argmin",
    "cumsum",     "cumprod",    "cummax",     "cummin",     "select",    "dot",
    "dot_scaled", "pack_e2m1",  "low_e2m1",   "high_e2m1",  "bitcast",   "zeros_like",
    "full_like",  "cdiv",       "tiles",      "print",      "assert",    "static_assert",
    "atomic_add", "atomic_min", "atomic_max", "atomic_and", "atomic_or", "atomic_xor",
    "reversed",   "iota",       "reshape",    "flip",       "join",      "split",
    "reduce",     "scan",       "given",      "fetch_add",  "fetch_min", "fetch_max",
    "zip",        "fetch_and",  "fetch_or",   "fetch_xor",  "unlikely"};

inline const Builtin* FindBuiltin(std::string_view name) {
  for (const Builtin& b : kBuiltins)
    if (name == b.name) return &b;
  return nullptr;
}

}  // namespace tilec::frontend
