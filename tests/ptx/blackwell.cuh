// Inline PTX of Blackwell's tensor memory and tensor cores for the hand-written kernels of this
// folder; what is the same on Hopper is in hopper.cuh.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hopper.cuh"

// ---- tensor memory ----
template <int kGroup>
__device__ __forceinline__ void TensorAlloc(uint32_t slot, uint32_t columns) {
  if (kGroup == 1)
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot),
                 "r"(columns)
                 : "memory");
  else
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot),
                 "r"(columns)
                 : "memory");
}
template <int kGroup>
__device__ __forceinline__ void TensorRelinquish() {
  if (kGroup == 1)
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
  else
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}
template <int kGroup>
__device__ __forceinline__ void TensorFree(uint32_t at, uint32_t columns) {
  if (kGroup == 1)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(columns)
                 : "memory");
  else
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(columns)
                 : "memory");
}
__device__ __forceinline__ void Before() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void After() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void WaitLd() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void WaitSt() {
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

#define OUT8(d, i)                                                                          \
  "=r"(d[i]), "=r"(d[i + 1]), "=r"(d[i + 2]), "=r"(d[i + 3]), "=r"(d[i + 4]), "=r"(d[i + 5]), \
      "=r"(d[i + 6]), "=r"(d[i + 7])
#define IN8(d, i)                                                                         \
  "r"(d[i]), "r"(d[i + 1]), "r"(d[i + 2]), "r"(d[i + 3]), "r"(d[i + 4]), "r"(d[i + 5]), \
      "r"(d[i + 6]), "r"(d[i + 7])
#define LIST16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                   \
  "%" #a ", %" #b ", %" #c ", %" #d ", %" #e ", %" #f ", %" #g ", %" #h ", %" #i ", %" #j ", %" #k \
  ", %" #l ", %" #m ", %" #n ", %" #o ", %" #p

// 32 columns of the thread's own lane.
__device__ __forceinline__ void Ld32(uint32_t (&d)[32], uint32_t at) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {" LIST16(
                   0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                   15) ", " LIST16(16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
                                   31) "}, [%32];"
               : OUT8(d, 0), OUT8(d, 8), OUT8(d, 16), OUT8(d, 24)
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void St32(uint32_t at, const uint32_t (&d)[32]) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], {" LIST16(
                   0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                   15) ", " LIST16(16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
                                   31) "};" ::IN8(d, 0),
               IN8(d, 8), IN8(d, 16), IN8(d, 24), "r"(at)
               : "memory");
}

// ---- products ----
// A tile of rows of 128 bytes in the 128-byte swizzle; `step` 16-byte units along a row.
__device__ __forceinline__ uint64_t Operand(uint32_t address, int step = 0) {
  return (static_cast<uint64_t>((address >> 4) + step) & 0x3fff) | 1ull << 16 | 64ull << 32 |
         1ull << 46 | 2ull << 61;
}
// Scale factors: eight rows of 16 bytes, no swizzle.
__device__ __forceinline__ uint64_t Scales(uint32_t address) {
  return (static_cast<uint64_t>(address >> 4) & 0x3fff) | 1ull << 16 | 8ull << 32 | 1ull << 46;
}
__device__ __forceinline__ void CopyScales(uint32_t to, uint64_t from) {
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}

template <int kGroup>
__device__ __forceinline__ void Commit(uint32_t bar) {
  if (kGroup == 1)
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                     bar)
                 : "memory");
  else  // to both CTAs of the pair
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
        "[%0], %1;" ::"r"(bar),
        "h"(static_cast<uint16_t>(3))
        : "memory");
}

#define MMA(kGroupText, kind)                                                                   \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::" kGroupText      \
               ".kind::" kind " [%0], %1, %2, %3, p;\n}" ::"r"(d),                              \
               "l"(a), "l"(b), "r"(idesc), "r"(add)                                            \
               : "memory")

template <int kGroup>
__device__ __forceinline__ void MmaF16(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, int add) {
  if (kGroup == 1)
    MMA("1", "f16");
  else
    MMA("2", "f16");
}
// A in tensor memory.
__device__ __forceinline__ void MmaF16Ts(uint32_t d, uint32_t a, uint64_t b, uint32_t idesc,
                                         int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}" ::"r"(d),
      "r"(a), "l"(b), "r"(idesc), "r"(add)
      : "memory");
}
#define MMA_SCALED(kind)                                                                       \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\ntcgen05.mma.cta_group::1.kind::" kind    \
               " [%0], %1, %2, %3, [%4], [%5], p;\n}" ::"r"(d),                                \
               "l"(a), "l"(b), "r"(idesc), "r"(sfa), "r"(sfb), "r"(add)                        \
               : "memory")
__device__ __forceinline__ void MmaMxf8(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc,
                                        uint32_t sfa, uint32_t sfb, int add) {
  MMA_SCALED("mxf8f6f4.block_scale.scale_vec::1X");
}
__device__ __forceinline__ void MmaNvf4(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc,
                                        uint32_t sfa, uint32_t sfb, int add) {
  MMA_SCALED("mxf4nvf4.block_scale.scale_vec::4X");
}

// ---- bulk copies without a map, and the pair ----
__device__ __forceinline__ void LoadBytes(uint32_t to, const void* from, uint32_t bytes,
                                          uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          to),
      "l"(from), "r"(bytes), "r"(bar)
      : "memory");
}
__device__ __forceinline__ uint32_t Rank() {
  uint32_t r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ __forceinline__ uint32_t InCta(uint32_t address, uint32_t rank) {
  uint32_t r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
  return r;
}
__device__ __forceinline__ void LoadPair(uint32_t to, const Map* map, uint32_t bar, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(bar), "r"(x), "r"(y)
      : "memory");
}
__device__ __forceinline__ void WaitCluster(uint32_t bar, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(bar),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void ArriveRemote(uint32_t bar) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void MeetCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" :::
                   "memory");
}
