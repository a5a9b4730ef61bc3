// One body, several instruction sets, the same bits.
//
// TILEC_LANES(Name, (params), (args)) defines Name as a dispatcher over copies of the
// always-inline NameBody compiled for AVX-512, for AVX2 and for the plain target. Bodies must use
// operations whose results do not depend on the instruction set: IEEE operations, integers, and
// std::fma (one instruction where there is one, exact library code where there is none).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tilec::runtime::emulator {

#define TILEC_BODY [[gnu::always_inline]] static inline

#if defined(__x86_64__)

enum class CpuLevel { kBase, kAvx2, kAvx512 };

inline CpuLevel Cpu() {
  static const CpuLevel level = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CpuLevel::kBase;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
      return CpuLevel::kAvx512;
    }
    return CpuLevel::kAvx2;
  }();
  return level;
}

#define TILEC_AVX2 __attribute__((target("avx2,fma")))
#define TILEC_AVX512 \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,prefer-vector-width=512")))

#define TILEC_LANES(Name, PARAMS, ARGS)                             \
  TILEC_AVX512 static void Name##Avx512 PARAMS { Name##Body ARGS; } \
  TILEC_AVX2 static void Name##Avx2 PARAMS { Name##Body ARGS; }     \
  static void Name##Base PARAMS { Name##Body ARGS; }                \
  void Name PARAMS {                                                \
    switch (Cpu()) {                                                \
      case CpuLevel::kAvx512: return Name##Avx512 ARGS;             \
      case CpuLevel::kAvx2: return Name##Avx2 ARGS;                 \
      case CpuLevel::kBase: return Name##Base ARGS;                 \
    }                                                               \
  }

#else

#define TILEC_LANES(Name, PARAMS, ARGS) \
  void Name PARAMS { Name##Body ARGS; }

#endif

}  // namespace tilec::runtime::emulator
