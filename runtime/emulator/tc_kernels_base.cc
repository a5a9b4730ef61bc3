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
// Of a comparison: all ones or nothing in each lane.
inline bool Any(VecI v) { return (v[0] | v[1] | v[2] | v[3]) != 0; }
// Half `h` of a vector.
template <typename Half, typename Whole>
inline Half HalfOf(Whole v, int h) {
  Half half;
  __builtin_memcpy(&half, reinterpret_cast<const char*>(&v) + h * sizeof half, sizeof half);
  return half;
}

#include "runtime/emulator/tc_kernels.inc"

}  // namespace

const TcKernels kTcKernelsBase = {kL, Fast, Exact, Integer, Narrow};

}  // namespace tilec::runtime::emulator
