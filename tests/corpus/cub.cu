// Collectives of CUB.
//
// SPDX-License-Identifier: Apache-2.0
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#define KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(128) name(float* a, float* b, float* c, int n)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(cub_reduce) {
  using R = cub::BlockReduce<float, 128>;
  __shared__ R::TempStorage s;
  float x = R(s).Sum(a[ME]);
  if (threadIdx.x == 0) c[blockIdx.x] = x;
}
KERNEL(cub_scan) {
  using S = cub::BlockScan<int, 128>;
  __shared__ S::TempStorage s;
  int x, total;
  S(s).ExclusiveSum(static_cast<int>(a[ME] * 10), x, total);
  c[ME] = x + total;
}
KERNEL(cub_sort) {
  using S = cub::BlockRadixSort<float, 128, 1>;
  __shared__ S::TempStorage s;
  float x[1] = {a[ME]};
  S(s).Sort(x);
  c[ME] = x[0];
}
KERNEL(cub_warp) {
  using W = cub::WarpReduce<int>;
  using S = cub::WarpScan<int>;
  __shared__ W::TempStorage w[4];
  __shared__ S::TempStorage s[4];
  int x = W(w[threadIdx.x / 32]).Sum(static_cast<int>(threadIdx.x)), y;
  S(s[threadIdx.x / 32]).InclusiveSum(static_cast<int>(threadIdx.x), y);
  c[ME] = (threadIdx.x % 32 == 0 ? x : 0) + y;
}
KERNEL(cub_exchange) {
  using L = cub::BlockLoad<float, 64, 2, cub::BLOCK_LOAD_TRANSPOSE>;
  using S = cub::BlockStore<float, 64, 2, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ union { L::TempStorage l; S::TempStorage s; } t;
  if (threadIdx.x >= 64) return;
  float x[2];
  L(t.l).Load(a + blockIdx.x * 128, x);
  asm volatile("bar.sync 0, 64;" ::: "memory");
  S(t.s).Store(c + blockIdx.x * 128, x);
}
KERNEL(cub_histogram) {
  using H = cub::BlockHistogram<unsigned char, 128, 1, 16>;
  __shared__ H::TempStorage s;
  __shared__ unsigned h[16];
  unsigned char x[1] = {static_cast<unsigned char>(ME % 13)};
  H(s).Histogram(x, h);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(reinterpret_cast<unsigned*>(c) + threadIdx.x, h[threadIdx.x]);
}
