// C[M, N] = A[M, K] · B[N, K]ᵀ in bf16 by TMA, mbarriers and wgmma, with its host: maps are encoded by
// an entry of the driver that the runtime is asked for. With RACE the producer fills a stage without
// waiting for the consumers of the turn before.
//
// SPDX-License-Identifier: Apache-2.0
#include "../ptx/hopper.cuh"

constexpr int kStages = 2, kTile = 64 * 64 * 2, kStage = 2 * kTile;

extern "C" __global__ void __launch_bounds__(256)
    gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      Init(Shared(&full[s]), 1);
      Init(Shared(&empty[s]), 1);
    }
    FenceInit();
  }
  __syncthreads();
  const uint32_t base = Shared(smem);
  const int steps = k / 64, row = blockIdx.y * 64, column = blockIdx.x * 64;
  if (threadIdx.x >= 128) {  // the producer
    if (threadIdx.x == 128) {
      for (int i = 0; i < steps; ++i) {
        const int s = i % kStages;
#ifndef RACE
        Wait(Shared(&empty[s]), (i / kStages & 1) ^ 1);
#endif
        Expect(Shared(&full[s]), kStage);
        Load2(base + s * kStage, &a, Shared(&full[s]), i * 64, row);
        Load2(base + s * kStage + kTile, &b, Shared(&full[s]), i * 64, column);
      }
    }
    return;
  }
  float d[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) d[i] = 0;
  for (int i = 0; i < steps; ++i) {
    const int s = i % kStages;
    Wait(Shared(&full[s]), i / kStages & 1);
    const uint32_t at = base + s * kStage;
    WgmmaFence();
#pragma unroll
    for (int j = 0; j < 4; ++j) Mma64(d, Tile(at, j * 2), Tile(at + kTile, j * 2), i > 0 || j > 0);
    WgmmaCommit();
    WgmmaWait<0>();
    Meet<128>(1);
    if (threadIdx.x == 0) Arrive(Shared(&empty[s]));
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int r = warp * 16 + lane / 4 + 8 * (i / 2 % 2);
    const int q = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    c[(row + r) * n + column + q] = d[i];
  }
}

#ifndef KERNELS_ONLY
#include <cuda.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                                                  \
  do {                                                                               \
    const cudaError_t e = call;                                                      \
    if (e != cudaSuccess) return printf("%s: %s\n", #call, cudaGetErrorString(e)), 1; \
  } while (0)

using Encode = decltype(&cuTensorMapEncodeTiled);

static bool MakeMap(Encode encode, Map* map, void* base, int rows, int k) {
  const cuuint64_t dims[] = {cuuint64_t(k), cuuint64_t(rows)}, strides[] = {cuuint64_t(k) * 2};
  const cuuint32_t box[] = {64, 64}, steps[] = {1, 1};
  return encode(reinterpret_cast<CUtensorMap*>(map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, base,
                dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

int main() {
  const int m = 128, n = 128, k = 320;
  std::vector<__nv_bfloat16> a(m * k), b(n * k);
  std::vector<float> c(m * n);
  for (int i = 0; i < m * k; ++i) a[i] = __float2bfloat16(float(i % 13 - 6));
  for (int i = 0; i < n * k; ++i) b[i] = __float2bfloat16(float(i % 11 - 5));
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                         &found));
  if (found != cudaDriverEntryPointSuccess) return printf("no entry\n"), 1;
  __nv_bfloat16 *da, *db;
  float* dc;
  CHECK(cudaMalloc(&da, m * k * 2));
  CHECK(cudaMalloc(&db, n * k * 2));
  CHECK(cudaMalloc(&dc, m * n * 4));
  CHECK(cudaMemcpy(da, a.data(), m * k * 2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), n * k * 2, cudaMemcpyHostToDevice));
  Map ma, mb;
  const Encode encode = reinterpret_cast<Encode>(entry);
  if (!MakeMap(encode, &ma, da, m, k) || !MakeMap(encode, &mb, db, n, k))
    return printf("no map\n"), 1;
  const int bytes = kStages * kStage;
  CHECK(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  gemm<<<dim3(n / 64, m / 64), 256, bytes>>>(ma, mb, dc, n, k);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), dc, m * n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float want = 0;
      for (int x = 0; x < k; ++x)
        want += __bfloat162float(a[i * k + x]) * __bfloat162float(b[j * k + x]);
      if (std::fabs(want - c[i * n + j]) > 1e-3f)
        return printf("wrong at %d, %d: %g, not %g\n", i, j, c[i * n + j], want), 1;
    }
  printf("right\n");
  return 0;
}
#endif
