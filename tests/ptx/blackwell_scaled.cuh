// C[M, N] = (A · SA) · (B · SB)ᵀ to f32 with block scales, 128 x 128 a CTA. Scale factors lie in blocks of
// 128 rows by four scales: byte (r % 32) · 16 + r / 32 · 4 + s, blocks of a row group one after the other
// along K. A stage is 128 bytes of K of both operands and the blocks that belong to it.
//
// SPDX-License-Identifier: Apache-2.0
#include "blackwell.cuh"

constexpr int kStages = 2, kBytes = 128 * 128;

// kBlocks: blocks of scales per stage and operand.
template <int kBlocks, typename Product>
__device__ __forceinline__ void ScaledGemm(const Map& a, const Map& b, const uint8_t* scales_a,
                                           const uint8_t* scales_b, float* c, int n, int steps,
                                           Product product) {
  constexpr int kScales = kBlocks * 512, kStage = 2 * kBytes + 2 * kScales;
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ uint64_t full[kStages], empty[kStages], done;
  __shared__ uint32_t slot;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      Init(Shared(&full[s]), 1);
      Init(Shared(&empty[s]), 1);
    }
    Init(Shared(&done), 1);
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
  const int row = blockIdx.y * 128, column = blockIdx.x * 128;
  if (warp == 0) {
    if (Elect()) {
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
        Wait(Shared(&empty[s]), (i / kStages & 1) ^ 1);
        const uint32_t bar = Shared(&full[s]), to = base + s * kStage;
        Expect(bar, kStage);
        Load2(to, &a, bar, i * 128, row);
        Load2(to + kBytes, &b, bar, i * 128, column);
        LoadBytes(to + 2 * kBytes, scales_a + (blockIdx.y * steps + i) * kScales, kScales, bar);
        LoadBytes(to + 2 * kBytes + kScales, scales_b + (blockIdx.x * steps + i) * kScales, kScales,
                  bar);
      }
      for (int i = steps; i < steps + kStages; ++i)
        Wait(Shared(&empty[i % kStages]), (i / kStages & 1) ^ 1);
    }
  } else if (warp == 1) {
    if (Elect()) {
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
        Wait(Shared(&full[s]), i / kStages & 1);
        After();
        const uint32_t at = base + s * kStage, sf = at + 2 * kBytes;
        // Columns of their own for each stage's scales.
        const uint32_t sfa = tensor + 128 + s * 8 * kBlocks, sfb = sfa + 4 * kBlocks;
        for (int j = 0; j < kBlocks; ++j) {
          CopyScales(sfa + 4 * j, Scales(sf + 512 * j));
          CopyScales(sfb + 4 * j, Scales(sf + kScales + 512 * j));
        }
        for (int j = 0; j < 4; ++j)
          product(tensor, Operand(at, j * 2), Operand(at + kBytes, j * 2), j, sfa, sfb,
                  i > 0 || j > 0);
        Commit<1>(Shared(&empty[s]));
      }
      Commit<1>(Shared(&done));
    }
  } else if (warp >= 4) {
    Wait(Shared(&done), 0);
    After();
    float* to = c + static_cast<int64_t>(row + (warp - 4) * 32 + lane) * n + column;
    for (int part = 0; part < 4; ++part) {
      uint32_t d[32];
      Ld32(d, tensor + part * 32 + ((warp - 4) * 32 << 16));
      WaitLd();
      for (int j = 0; j < 32; j += 4)
        *reinterpret_cast<uint4*>(to + part * 32 + j) =
            make_uint4(d[j], d[j + 1], d[j + 2], d[j + 3]);
    }
  }
  __syncwarp();
  Before();
  __syncthreads();
  After();
  if (warp == 2) TensorFree<1>(tensor, 256);
}
