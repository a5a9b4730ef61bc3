// C[M, N] = A[M, K] · B[N, K]ᵀ in bf16: one warpgroup loads through a ring of four stages, two
// compute 64 rows each, the result goes through shared memory to a tensor store. M, N multiples of
// 128, K of 64.
//
// nvcc -arch=sm_90a -ptx gemm.cu
//
// SPDX-License-Identifier: Apache-2.0
#include "hopper.cuh"

constexpr int kStages = 4, kBytesA = 128 * 64 * 2, kBytesB = 128 * 64 * 2;
constexpr int kStage = kBytesA + kBytesB;

extern "C" __global__ void __launch_bounds__(384, 1)
    gemm(const __grid_constant__ Map a, const __grid_constant__ Map b,
         const __grid_constant__ Map c, int k) {
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ uint64_t full[kStages], empty[kStages];
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  const int m = blockIdx.y * 128, n = blockIdx.x * 128;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      Init(Shared(&full[s]), 1);
      Init(Shared(&empty[s]), 2);
    }
    FenceInit();
  }
  __syncthreads();
  const uint32_t base = Shared(smem);
  const int steps = k / 64;
  if (group == 0) {
    GiveRegisters<40>();
    if (threadIdx.x < 32 && Elect()) {
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
        Wait(Shared(&empty[s]), (i / kStages & 1) ^ 1);
        const uint32_t bar = Shared(&full[s]), to = base + s * kStage;
        Expect(bar, kStage);
        Load2(to, &a, bar, i * 64, m);
        Load2(to + kBytesA, &b, bar, i * 64, n);
      }
    }
    return;
  }
  TakeRegisters<232>();
  const int row = (group - 1) * 64;
  float d[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) d[i] = 0;
  for (int i = 0; i < steps; ++i) {
    const int s = i % kStages;
    Wait(Shared(&full[s]), i / kStages & 1);
    const uint32_t at = base + s * kStage;
    WgmmaFence();
#pragma unroll
    for (int j = 0; j < 4; ++j)
      Mma128(d, Tile(at + row * 128, j * 2), Tile(at + kBytesA, j * 2), i > 0 || j > 0);
    WgmmaCommit();
    WgmmaWait<0>();
    if (thread == 0) Arrive(Shared(&empty[s]));
  }
  // The ring is free once both groups are here; two halves of 64 columns, in the 128-byte swizzle.
  Meet<256>(1);
  const int warp = thread / 32, lane = thread % 32;
#pragma unroll
  for (int i = 0; i < 64; i += 2) {
    const int r = row + warp * 16 + lane / 4 + 8 * (i / 2 % 2);
    const int column = 8 * (i / 4) + 2 * (lane % 4);
    const int half = column / 64, byte = column % 64 * 2;
    const uint32_t at = half * 128 * 128 + r * 128 + (byte ^ (r % 8 << 4));
    *reinterpret_cast<uint32_t*>(smem + at) = Pack(d[i], d[i + 1]);
  }
  FenceAsync();
  Meet<256>(1);
  if (group == 1 && warp == 0 && Elect()) {
    Store2(&c, base, n, m);
    Store2(&c, base + 128 * 128, n + 64, m);
    CommitStore();
    WaitStoreRead();
  }
}
