// C[M, N] = A[M, K] · B[N, K]ᵀ in bf16 on Blackwell: CTAs stay and take tile after tile; one warp
// loads through a ring of four stages, one thread issues products into two accumulators in turn, four
// warps convert and store. M, N multiples of 128, K of 64.
//
// nvcc -arch=sm_100a -ptx blackwell_gemm.cu
//
// SPDX-License-Identifier: Apache-2.0
#include "blackwell.cuh"

constexpr int kStages = 4, kBytesA = 128 * 64 * 2, kBytesB = 128 * 64 * 2;
constexpr int kStage = kBytesA + kBytesB;
constexpr uint32_t kTask = 0x08200490;  // bf16, f32, 128 x 128, K-major

extern "C" __global__ void __launch_bounds__(256, 1)
    gemm(const __grid_constant__ Map a, const __grid_constant__ Map b,
         const __grid_constant__ Map c, int m, int n, int k) {
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ uint64_t full[kStages], empty[kStages], acc_full[2], acc_empty[2];
  __shared__ uint32_t slot;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      Init(Shared(&full[s]), 1);
      Init(Shared(&empty[s]), 1);
    }
    for (int s = 0; s < 2; ++s) {
      Init(Shared(&acc_full[s]), 1);
      Init(Shared(&acc_empty[s]), 4);
    }
    FenceInit();
  }
  if (warp == 2) {
    TensorAlloc<1>(Shared(&slot), 256);
    TensorRelinquish<1>();
  }
  Before();
  __syncthreads();
  After();
  const uint32_t tensor = slot, base = Shared(smem);
  const int across = n / 128, tiles = m / 128 * across, steps = k / 64;
  if (warp == 0) {
    if (Elect()) {
      int turn = 0;
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
        for (int i = 0; i < steps; ++i, ++turn) {
          const int s = turn % kStages;
          Wait(Shared(&empty[s]), (turn / kStages & 1) ^ 1);
          const uint32_t bar = Shared(&full[s]), to = base + s * kStage;
          Expect(bar, kStage);
          Load2(to, &a, bar, i * 64, tile / across * 128);
          Load2(to + kBytesA, &b, bar, i * 64, tile % across * 128);
        }
      // No arrival may come after the CTA is gone.
      for (int j = 0; j < kStages; ++j, ++turn)
        Wait(Shared(&empty[turn % kStages]), (turn / kStages & 1) ^ 1);
    }
  } else if (warp == 1) {
    if (Elect()) {
      int turn = 0, t = 0;
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++t) {
        Wait(Shared(&acc_empty[t % 2]), (t / 2 & 1) ^ 1);
        After();
        for (int i = 0; i < steps; ++i, ++turn) {
          const int s = turn % kStages;
          Wait(Shared(&full[s]), turn / kStages & 1);
          After();
          const uint32_t at = base + s * kStage;
          for (int j = 0; j < 4; ++j)
            MmaF16<1>(tensor + t % 2 * 128, Operand(at, j * 2), Operand(at + kBytesA, j * 2), kTask,
                      i > 0 || j > 0);
          Commit<1>(Shared(&empty[s]));
        }
        Commit<1>(Shared(&acc_full[t % 2]));
      }
    }
  } else if (warp >= 4) {
    const int quarter = warp - 4, row = quarter * 32 + lane;
    uint8_t* panels = smem + kStages * kStage;  // two of 64 columns, in the 128-byte swizzle
    int t = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++t) {
      Wait(Shared(&acc_full[t % 2]), t / 2 & 1);
      After();
      for (int part = 0; part < 4; ++part) {
        uint32_t d[32];
        Ld32(d, tensor + t % 2 * 128 + part * 32 + (quarter * 32 << 16));
        WaitLd();
        if (part == 3) {
          Before();
          __syncwarp();
          if (lane == 0) Arrive(Shared(&acc_empty[t % 2]));
        }
        if (part == 0) {  // the store of the tile before has read the panels
          if (warp == 4 && lane == 0) WaitStoreRead();
          Meet<128>(1);
        }
        for (int j = 0; j < 32; j += 8) {
          const int column = part * 32 + j, byte = column % 64 * 2;
          const uint32_t at = column / 64 * 128 * 128 + row * 128 + (byte ^ (row % 8 << 4));
          *reinterpret_cast<uint4*>(panels + at) = make_uint4(
              Pack(__uint_as_float(d[j]), __uint_as_float(d[j + 1])),
              Pack(__uint_as_float(d[j + 2]), __uint_as_float(d[j + 3])),
              Pack(__uint_as_float(d[j + 4]), __uint_as_float(d[j + 5])),
              Pack(__uint_as_float(d[j + 6]), __uint_as_float(d[j + 7])));
        }
      }
      FenceAsync();
      Meet<128>(1);
      if (warp == 4 && lane == 0) {
        const int x = tile % across * 128, y = tile / across * 128;
        Store2(&c, Shared(panels), x, y);
        Store2(&c, Shared(panels) + 128 * 128, x + 64, y);
        CommitStore();
      }
    }
    if (warp == 4 && lane == 0) WaitStoreRead();
  }
  __syncwarp();
  Before();
  __syncthreads();
  After();
  if (warp == 2) TensorFree<1>(tensor, 256);
}
