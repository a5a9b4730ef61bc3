// Portable build of the tensor-core loops. Slow where the host has no fused multiply-add (the
// library computes it), but with the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/tc_kernels.h"

namespace tilec::runtime::emulator {
namespace {

constexpr int kL = 4;
constexpr int kFastRows = 4;
constexpr int kFastBlocks = 1;

typedef float Vec __attribute__((vector_size(16), may_alias));
typedef int16_t VecS __attribute__((vector_size(16), may_alias));
typedef int32_t VecI __attribute__((vector_size(16), may_alias));

inline Vec Fma(Vec a, Vec b, Vec c) {
  Vec r;
  for (int i = 0; i < 4; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
}
inline Vec Repeat4(const float* p) { return *reinterpret_cast<const Vec*>(p); }
inline VecI Repeat4(const int32_t* p) { return *reinterpret_cast<const VecI*>(p); }
inline VecS Repeat4(const int16_t* p) {
  return VecS{p[0], p[1], p[2], p[3], p[0], p[1], p[2], p[3]};
}

#include "runtime/emulator/tc_kernels.inc"

}  // namespace

const TcKernels kTcKernelsBase = {kL, Fast, Exact, Integer, Narrow};

}  // namespace tilec::runtime::emulator
