// A kernel that stays: as many CTAs as fit, one warp that loads tiles through a ring, three that
// scale them, stores in bulk. With RACE the store is issued without the fence that makes what the
// threads wrote known to it.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "../ptx/hopper.cuh"

constexpr int kDepth = 3, kElements = 768, kBytes = kElements * 4;

__device__ __forceinline__ void LoadBulk(uint32_t to, const void* from, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          to),
      "l"(from), "r"(kBytes), "r"(bar)
      : "memory");
}
__device__ __forceinline__ void StoreBulk(void* to, uint32_t from) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(kBytes)
               : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    scale(const float* in, float* out, int tiles, float by) {
  __shared__ __align__(128) float ring[kDepth][kElements];
  __shared__ uint64_t full[kDepth], empty[kDepth];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kDepth; ++s) {
      Init(Shared(&full[s]), 1);
      Init(Shared(&empty[s]), 1);
    }
    FenceInit();
  }
  __syncthreads();
  int turn = 0;
  if (threadIdx.x >= 96) {  // the warp that loads
    if (threadIdx.x == 96)
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++turn) {
        const int s = turn % kDepth;
        Wait(Shared(&empty[s]), (turn / kDepth & 1) ^ 1);
        Expect(Shared(&full[s]), kBytes);
        LoadBulk(Shared(ring[s]), in + tile * kElements, Shared(&full[s]));
      }
    return;
  }
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++turn) {
    const int s = turn % kDepth;
    Wait(Shared(&full[s]), turn / kDepth & 1);
    for (int i = threadIdx.x; i < kElements; i += 96) ring[s][i] *= by;
#ifndef RACE
    FenceAsync();
#endif
    Meet<96>(1);
    if (threadIdx.x == 0) {
      StoreBulk(out + tile * kElements, Shared(ring[s]));
      CommitStore();
      WaitStoreRead();
      Arrive(Shared(&empty[s]));
    }
  }
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#ifndef KERNELS_ONLY
#include <cstdio>
#include <vector>

#define CHECK(call)                                                                  \
  do {                                                                               \
    const cudaError_t e = call;                                                      \
    if (e != cudaSuccess) return printf("%s: %s\n", #call, cudaGetErrorString(e)), 1; \
  } while (0)

int main() {
  const int tiles = 40, n = tiles * kElements;
  std::vector<float> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = float(i % 101);
  int sms = 0;
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  float *a, *b;
  CHECK(cudaMallocAsync(&a, n * sizeof(float), stream));
  CHECK(cudaMallocAsync(&b, n * sizeof(float), stream));
  CHECK(cudaMemcpyAsync(a, in.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
  scale<<<sms < 6 ? sms : 6, 128, 0, stream>>>(a, b, tiles, 2.5f);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyAsync(out.data(), b, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaFreeAsync(a, stream));
  CHECK(cudaFreeAsync(b, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  for (int i = 0; i < n; ++i)
    if (out[i] != in[i] * 2.5f) return printf("wrong at %d\n", i), 1;
  printf("right\n");
  return 0;
}
#endif
