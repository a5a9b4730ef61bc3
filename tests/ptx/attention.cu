// O = softmax(scale · Q·Kᵀ) · V for one head of 64, bf16, all tensors [heads·S, 64] row-major: one
// warpgroup loads Q once and K, V through a ring of two stages; two compute 64 queries each with an
// online softmax, probabilities stay in registers. S a multiple of 128.
//
// nvcc -arch=sm_90a -ptx attention.cu
//
// SPDX-License-Identifier: Apache-2.0
#include "hopper.cuh"

constexpr int kStages = 2, kQuery = 128 * 128, kTile = 64 * 128, kStage = 2 * kTile;

extern "C" __global__ void __launch_bounds__(384, 1)
    attention(const __grid_constant__ Map q, const __grid_constant__ Map k,
              const __grid_constant__ Map v, __nv_bfloat16* out, int length, float scale) {
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ uint64_t query, full[kStages], empty[kStages];
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  const int head = blockIdx.y * length, first = head + blockIdx.x * 128;
  if (threadIdx.x == 0) {
    Init(Shared(&query), 1);
    for (int s = 0; s < kStages; ++s) {
      Init(Shared(&full[s]), 1);
      Init(Shared(&empty[s]), 256);
    }
    FenceInit();
  }
  __syncthreads();
  const uint32_t base = Shared(smem), ring = base + kQuery;
  const int steps = length / 64;
  if (group == 0) {
    GiveRegisters<40>();
    if (threadIdx.x == 0) {
      Expect(Shared(&query), kQuery);
      Load2(base, &q, Shared(&query), 0, first);
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
        Wait(Shared(&empty[s]), (i / kStages & 1) ^ 1);
        const uint32_t bar = Shared(&full[s]), to = ring + s * kStage;
        Expect(bar, kStage);
        Load2(to, &k, bar, 0, head + i * 64);
        Load2(to + kTile, &v, bar, 0, head + i * 64);
      }
    }
    return;
  }
  TakeRegisters<232>();
  const int row = (group - 1) * 64, warp = thread / 32, lane = thread % 32;
  float o[32], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 32; ++i) o[i] = 0;
  const float log2e = scale * 1.4426950408889634f;
  Wait(Shared(&query), 0);
  for (int i = 0; i < steps; ++i) {
    const int s = i % kStages;
    const uint32_t at = ring + s * kStage;
    Wait(Shared(&full[s]), i / kStages & 1);
    float p[32];
    WgmmaFence();
#pragma unroll
    for (int j = 0; j < 4; ++j) Mma64(p, Tile(base + row * 128, j * 2), Tile(at, j * 2), j > 0);
    WgmmaCommit();
    WgmmaWait<0>();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = most[h];
#pragma unroll
      for (int e = 0; e < 32; ++e)
        if (e / 2 % 2 == h) top = fmaxf(top, p[e]);
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      const float keep = exp2f((most[h] - top) * log2e);
      most[h] = top;
      sum[h] *= keep;
#pragma unroll
      for (int e = 0; e < 32; ++e) {
        if (e / 2 % 2 != h) continue;
        o[e] *= keep;
        p[e] = exp2f((p[e] - top) * log2e);
        sum[h] += p[e];
      }
    }
    uint32_t fragment[4][4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) fragment[j][e] = Pack(p[8 * j + 2 * e], p[8 * j + 2 * e + 1]);
    WgmmaFence();
#pragma unroll
    for (int j = 0; j < 4; ++j) MmaRegisters64(o, fragment[j], Tile(at + kTile + j * 16 * 128));
    WgmmaCommit();
    WgmmaWait<0>();
    Arrive(Shared(&empty[s]));
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
  }
#pragma unroll
  for (int i = 0; i < 32; i += 2) {
    const int h = i / 2 % 2, r = first + row + warp * 16 + lane / 4 + 8 * h;
    const int column = 8 * (i / 4) + 2 * (lane % 4);
    *reinterpret_cast<uint32_t*>(out + r * 64 + column) = Pack(o[i] / sum[h], o[i + 1] / sum[h]);
  }
}
