// C[M, N] = A[M, K] · B[N, K]ᵀ, bf16 to f32, by pairs of CTAs: a product has 256 rows, half of them
// in each CTA, and each CTA holds half of B. M a multiple of 256, N of 128, K of 64.
//
// nvcc -arch=sm_100a -ptx blackwell_pair.cu
//
// SPDX-License-Identifier: Apache-2.0
#include "blackwell.cuh"

constexpr int kStages = 3, kBytesA = 128 * 64 * 2, kBytesB = 64 * 64 * 2;
constexpr int kStage = kBytesA + kBytesB;
constexpr uint32_t kTask = 0x10200490;  // bf16, f32, 256 x 128, K-major

extern "C" __global__ void __launch_bounds__(256, 1)
    gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ uint64_t full[kStages], empty[kStages], acc_full;
  __shared__ uint32_t slot;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t rank = Rank();
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      Init(Shared(&full[s]), 1);
      Init(Shared(&empty[s]), 1);
    }
    Init(Shared(&acc_full), 1);
    FenceInit();
  }
  MeetCluster();
  if (warp == 2) {
    TensorAlloc<2>(Shared(&slot), 128);
    TensorRelinquish<2>();
  }
  Before();
  MeetCluster();
  After();
  const uint32_t tensor = slot, base = Shared(smem);
  const int steps = k / 64, row = blockIdx.x * 128, column = blockIdx.y * 128;
  if (warp == 0) {
    if (Elect()) {
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
        WaitCluster(Shared(&empty[s]), (i / kStages & 1) ^ 1);
        if (rank == 0) Expect(Shared(&full[s]), 2 * kStage);
        const uint32_t bar = InCta(Shared(&full[s]), 0), to = base + s * kStage;
        LoadPair(to, &a, bar, i * 64, row);
        LoadPair(to + kBytesA, &b, bar, i * 64, column + rank * 64);
      }
      for (int j = 0; j < kStages; ++j) {
        const int i = steps + j;
        WaitCluster(Shared(&empty[i % kStages]), (i / kStages & 1) ^ 1);
      }
    }
  } else if (warp == 1 && rank == 0) {
    if (Elect()) {
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
        WaitCluster(Shared(&full[s]), i / kStages & 1);
        After();
        const uint32_t at = base + s * kStage;
        for (int j = 0; j < 4; ++j)
          MmaF16<2>(tensor, Operand(at, j * 2), Operand(at + kBytesA, j * 2), kTask,
                    i > 0 || j > 0);
        Commit<2>(Shared(&empty[s]));
      }
      Commit<2>(Shared(&acc_full));
    }
  } else if (warp >= 4) {
    WaitCluster(Shared(&acc_full), 0);
    After();
    float* to = c + static_cast<int64_t>(row + (warp - 4) * 32 + lane) * n + column;
    for (int part = 0; part < 4; ++part) {
      uint32_t d[32];
      Ld32(d, tensor + part * 32 + ((warp - 4) * 32 << 16));
      WaitLd();
      for (int j = 0; j < 32; j += 4)
        *reinterpret_cast<uint4*>(to + part * 32 + j) = make_uint4(d[j], d[j + 1], d[j + 2], d[j + 3]);
    }
  }
  __syncwarp();
  Before();
  MeetCluster();
  After();
  if (warp == 2) TensorFree<2>(tensor, 128);
}
