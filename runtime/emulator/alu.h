// Lane-wise arithmetic. One implementation (alu_impl.h) is compiled twice, for any x86-64 and for
// AVX2+FMA hosts; AluHandler picks at run time. Both give the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/internal.h"

namespace tilec::runtime::emulator {

enum class AluOp : uint8_t {
  kMov,
  kAdd,
  kSub,
  kMul,
  kMulHi,
  kMulWide,
  kMad,
  kMadHi,
  kMadWide,
  kDiv,
  kRem,
  kMin,
  kMax,
  kNeg,
  kAbs,
  kAnd,
  kOr,
  kXor,
  kNot,
  kCnot,
  kShl,
  kShr,
  kShfL,
  kShfR,
  kLop3,
  kPrmt,
  kBfe,
  kBfi,
  kPopc,
  kClz,
  kBfind,
  kBrev,
  kFma,
  kSelp,
  kSad,
  kBmsk,
  kCopysign,
  kSzext,
  kSet,
  kDp4a,
};

struct AluFlags {
  bool ftz = false, sat = false, nan = false, relu = false;
  bool wrap = false;      // shf
  bool shiftamt = false;  // bfind
  bool xorsign = false;
};

// Comparisons, in the order of Inst::u[1] of setp.
enum class Compare : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
};

// Null: no such operation on this type.
Handler AluHandler(AluOp op, Type type, AluFlags flags);
// d = a <cmp> b as a mask in Predicate(o[0]); o[1] its complement if u[2]; combined by u[3]
// (0 none, 1 and, 2 or, 3 xor) with the predicate o[4], complemented if u[4].
Handler SetpHandler(Compare cmp, Type type, bool ftz);

namespace alu_base {
Handler Find(AluOp op, Type type, AluFlags flags);
Handler FindSetp(Compare cmp, Type type, bool ftz);
}  // namespace alu_base
namespace alu_avx2 {
Handler Find(AluOp op, Type type, AluFlags flags);
Handler FindSetp(Compare cmp, Type type, bool ftz);
}  // namespace alu_avx2

}  // namespace tilec::runtime::emulator
