// O = softmax(Q · Kᵀ · scale) · V for heads of 64, bf16, on Blackwell: 128 queries a CTA, 64 keys a
// step. Scores, weights and the result are in tensor memory; the weights go there as the left operand
// of the second product, over the scores they are computed from.
//
// nvcc -arch=sm_100a -ptx blackwell_attention.cu
//
// SPDX-License-Identifier: Apache-2.0
#include "blackwell.cuh"

constexpr int kKeys = 64, kHead = 64, kStages = 2;
constexpr int kBytesQ = 128 * kHead * 2, kBytesK = kKeys * kHead * 2;
constexpr uint32_t kScores = 0x08100490;   // bf16, f32, 128 x 64, K-major
constexpr uint32_t kWeighted = 0x08110490;  // V is MN-major

// V: keys are the rows; eight of them by 64 columns repeat, and a K step is sixteen.
__device__ __forceinline__ uint64_t Values(uint32_t address, int step) {
  return (static_cast<uint64_t>((address >> 4) + step * 128) & 0x3fff) | 1ull << 16 | 64ull << 32 |
         1ull << 46 | 2ull << 61;
}

extern "C" __global__ void __launch_bounds__(256, 1)
    attention(const __grid_constant__ Map q, const __grid_constant__ Map k,
              const __grid_constant__ Map v, __nv_bfloat16* o, int length, float scale) {
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ uint64_t q_full, full[kStages], empty[kStages], scores, weights, result;
  __shared__ uint32_t slot;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head = blockIdx.y * length, first = head + blockIdx.x * 128, steps = length / kKeys;
  if (threadIdx.x == 0) {
    Init(Shared(&q_full), 1);
    for (int s = 0; s < kStages; ++s) {
      Init(Shared(&full[s]), 1);
      Init(Shared(&empty[s]), 1);
    }
    Init(Shared(&scores), 1);
    Init(Shared(&weights), 4);
    Init(Shared(&result), 1);
    FenceInit();
  }
  if (warp == 2) {
    TensorAlloc<1>(Shared(&slot), 128);
    TensorRelinquish<1>();
  }
  Before();
  __syncthreads();
  After();
  const uint32_t tensor = slot, base = Shared(smem), sum_at = tensor + 64;
  if (warp == 0) {
    if (Elect()) {
      Expect(Shared(&q_full), kBytesQ);
      Load2(base, &q, Shared(&q_full), 0, first);
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
        Wait(Shared(&empty[s]), (i / kStages & 1) ^ 1);
        const uint32_t to = base + kBytesQ + s * 2 * kBytesK;
        Expect(Shared(&full[s]), 2 * kBytesK);
        Load2(to, &k, Shared(&full[s]), 0, head + i * kKeys);
        Load2(to + kBytesK, &v, Shared(&full[s]), 0, head + i * kKeys);
      }
      for (int j = steps; j < steps + kStages; ++j)
        Wait(Shared(&empty[j % kStages]), (j / kStages & 1) ^ 1);
    }
  } else if (warp == 1) {
    if (Elect()) {
      Wait(Shared(&q_full), 0);
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
        const uint32_t at = base + kBytesQ + s * 2 * kBytesK;
        Wait(Shared(&full[s]), i / kStages & 1);
        if (i > 0) Wait(Shared(&result), (i - 1) & 1);  // weights lie over the scores
        After();
        for (int j = 0; j < kHead / 16; ++j)
          MmaF16<1>(tensor, Operand(base, j * 2), Operand(at, j * 2), kScores, j > 0);
        Commit<1>(Shared(&scores));
        Wait(Shared(&weights), i & 1);
        After();
        for (int j = 0; j < kKeys / 16; ++j)
          MmaF16Ts(sum_at, tensor + j * 8, Values(at + kBytesK, j), kWeighted, i > 0 || j > 0);
        Commit<1>(Shared(&empty[s]));
        Commit<1>(Shared(&result));
      }
    }
  } else if (warp >= 4) {
    const uint32_t quarter = static_cast<uint32_t>(warp - 4) * 32 << 16;
    float top = -INFINITY, total = 0;
    const float factor = scale * 1.44269504f;
    for (int i = 0; i < steps; ++i) {
      uint32_t d[32], e[32];
      Wait(Shared(&scores), i & 1);
      After();
      Ld32(d, tensor + quarter);
      Ld32(e, tensor + 32 + quarter);
      WaitLd();
      float peak = top;
      for (int j = 0; j < 32; ++j)
        peak = fmaxf(peak, fmaxf(__uint_as_float(d[j]), __uint_as_float(e[j])));
      const float shrink = exp2f((top - peak) * factor);
      top = peak;
      total *= shrink;
      for (int j = 0; j < 32; ++j) {
        const float x = exp2f((__uint_as_float(d[j]) - peak) * factor);
        const float y = exp2f((__uint_as_float(e[j]) - peak) * factor);
        total += x + y;
        d[j] = __float_as_uint(x), e[j] = __float_as_uint(y);
      }
      uint32_t p[32];
      for (int j = 0; j < 16; ++j) {
        p[j] = Pack(__uint_as_float(d[2 * j]), __uint_as_float(d[2 * j + 1]));
        p[16 + j] = Pack(__uint_as_float(e[2 * j]), __uint_as_float(e[2 * j + 1]));
      }
      St32(tensor + quarter, p);
      if (i > 0) {  // the product before is over: the scores came after it
        for (int part = 0; part < 64; part += 32) {
          Ld32(d, sum_at + part + quarter);
          WaitLd();
          for (int j = 0; j < 32; ++j) d[j] = __float_as_uint(__uint_as_float(d[j]) * shrink);
          St32(sum_at + part + quarter, d);
        }
      }
      WaitSt();
      Before();
      __syncwarp();
      if (lane == 0) Arrive(Shared(&weights));
    }
    Wait(Shared(&result), (steps - 1) & 1);
    After();
    __nv_bfloat16* to = o + static_cast<int64_t>(first + (warp - 4) * 32 + lane) * kHead;
    for (int part = 0; part < 64; part += 32) {
      uint32_t d[32];
      Ld32(d, sum_at + part + quarter);
      WaitLd();
      for (int j = 0; j < 32; j += 2)
        *reinterpret_cast<uint32_t*>(to + part + j) =
            Pack(__uint_as_float(d[j]) / total, __uint_as_float(d[j + 1]) / total);
    }
  }
  __syncwarp();
  Before();
  __syncthreads();
  After();
  if (warp == 2) TensorFree<1>(tensor, 128);
}
