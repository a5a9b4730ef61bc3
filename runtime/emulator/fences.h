// Under the address sanitizer, bytes that lie between what a program owns are out of bounds for the
// emulator as well: between allocations, and between the shared memory, registers and local memory
// of one CTA, which the host allocates in one piece. Otherwise nothing of this costs anything.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define TILEC_FENCES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TILEC_FENCES 1
#endif
#endif

#ifdef TILEC_FENCES
#include <sanitizer/asan_interface.h>
#endif

namespace tilec::runtime::emulator {

#ifdef TILEC_FENCES
constexpr uint64_t kFence = 64;  // bytes behind each part of a CTA
inline void FenceOff(const void* from, uint64_t bytes) { __asan_poison_memory_region(from, bytes); }
inline void OpenUp(const void* from, uint64_t bytes) { __asan_unpoison_memory_region(from, bytes); }
#else
constexpr uint64_t kFence = 0;
inline void FenceOff(const void*, uint64_t) {}
inline void OpenUp(const void*, uint64_t) {}
#endif

}  // namespace tilec::runtime::emulator
