// See alu.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/alu.h"

namespace tilec::runtime::emulator {
namespace {

bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

}  // namespace

Handler AluHandler(AluOp op, Type type, AluFlags flags) {
  return HasAvx2() ? alu_avx2::Find(op, type, flags) : alu_base::Find(op, type, flags);
}

Handler SetpHandler(Compare cmp, Type type, bool ftz) {
  return HasAvx2() ? alu_avx2::FindSetp(cmp, type, ftz) : alu_base::FindSetp(cmp, type, ftz);
}

}  // namespace tilec::runtime::emulator
