// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <immintrin.h>

#include "runtime/emulator/tc_kernels.h"

#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,prefer-vector-width=512")

namespace tilec::runtime::emulator {
namespace {

constexpr int kL = 16;
constexpr int kFastRows = 4;
constexpr int kFastBlocks = 2;

inline __m512 Fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
inline __m512 Repeat4(const float* p) { return _mm512_broadcast_f32x4(_mm_loadu_ps(p)); }
typedef int32_t Repeated __attribute__((vector_size(64), may_alias));
inline Repeated Repeat4(const int32_t* p) {
  return reinterpret_cast<Repeated>(
      _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
typedef int16_t RepeatedS __attribute__((vector_size(64), may_alias));
inline RepeatedS Repeat4(const int16_t* p) {
  int64_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return reinterpret_cast<RepeatedS>(_mm512_set1_epi64(four));
}
// Of a comparison: all ones or nothing in each lane.
inline bool Any(Repeated v) { return _mm512_movepi32_mask(reinterpret_cast<__m512i>(v)) != 0; }
// Half `h` of a vector, in registers: by way of memory the compiler keeps sums there.
template <typename Half, typename Whole>
inline Half HalfOf(Whole v, int h) {
  const auto x = reinterpret_cast<__m512i>(v);
  return reinterpret_cast<Half>(h == 0 ? __builtin_shufflevector(x, x, 0, 1, 2, 3)
                                       : __builtin_shufflevector(x, x, 4, 5, 6, 7));
}

#include "runtime/emulator/tc_kernels.inc"

}  // namespace

const TcKernels kTcKernelsAvx512 = {kL, Fast, Exact, Integer, Narrow};

}  // namespace tilec::runtime::emulator
#endif
