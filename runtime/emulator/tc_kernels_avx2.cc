// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <immintrin.h>

#include "runtime/emulator/tc_kernels.h"

#pragma GCC target("avx2,fma")

namespace tilec::runtime::emulator {
namespace {

constexpr int kL = 8;
constexpr int kFastRows = 4;
constexpr int kFastBlocks = 1;

inline __m256 Fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
inline __m256 Repeat4(const float* p) {
  return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(p));
}
typedef int32_t Repeated __attribute__((vector_size(32), may_alias));
inline Repeated Repeat4(const int32_t* p) {
  return reinterpret_cast<Repeated>(
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
typedef int16_t RepeatedS __attribute__((vector_size(32), may_alias));
inline RepeatedS Repeat4(const int16_t* p) {
  int64_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return reinterpret_cast<RepeatedS>(_mm256_set1_epi64x(four));
}
// Of a comparison: all ones or nothing in each lane.
inline bool Any(Repeated v) { return _mm256_movemask_epi8(reinterpret_cast<__m256i>(v)) != 0; }
// Half `h` of a vector, in registers: by way of memory the compiler keeps sums there.
template <typename Half, typename Whole>
inline Half HalfOf(Whole v, int h) {
  const auto x = reinterpret_cast<__m256i>(v);
  return reinterpret_cast<Half>(h == 0 ? __builtin_shufflevector(x, x, 0, 1)
                                       : __builtin_shufflevector(x, x, 2, 3));
}

#include "runtime/emulator/tc_kernels.inc"

}  // namespace

const TcKernels kTcKernelsAvx2 = {kL, Fast, Exact, Integer, Narrow};

}  // namespace tilec::runtime::emulator
#endif
