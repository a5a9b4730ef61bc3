// The sum of a vector by cooperative groups: tiles of a warp, a block, then the grid meets and the
// first block adds up what the others left. With RACE the grid does not meet.
//
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

__device__ float Block(cg::thread_block block, float value, float* shared) {
  const auto warp = cg::tiled_partition<32>(block);
  value = cg::reduce(warp, value, cg::plus<float>());
  if (warp.thread_rank() == 0) shared[warp.meta_group_rank()] = value;
  block.sync();
  value = block.thread_rank() < warp.meta_group_size() ? shared[block.thread_rank()] : 0;
  if (warp.meta_group_rank() == 0) value = cg::reduce(warp, value, cg::plus<float>());
  block.sync();
  return value;
}

extern "C" __global__ void sum(const float* in, float* parts, float* out, int n) {
  __shared__ float shared[32];
  const auto grid = cg::this_grid();
  const auto block = cg::this_thread_block();
  float value = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) value += in[i];
  value = Block(block, value, shared);
  if (block.thread_rank() == 0) parts[blockIdx.x] = value;
#ifndef RACE
  grid.sync();
#endif
  if (blockIdx.x != 0) return;
  value = threadIdx.x < gridDim.x ? parts[threadIdx.x] : 0;
  value = Block(block, value, shared);
  if (threadIdx.x == 0) *out = value;
}

#ifndef KERNELS_ONLY
#define CHECK(call)                                                                  \
  do {                                                                               \
    const cudaError_t e = call;                                                      \
    if (e != cudaSuccess) return printf("%s: %s\n", #call, cudaGetErrorString(e)), 1; \
  } while (0)

int main() {
  int n = 5000, blocks = 0;
  std::vector<float> in(n);
  float want = 0, got = 0;
  for (int i = 0; i < n; ++i) want += in[i] = float(i % 7);
  cudaDeviceProp p;
  CHECK(cudaGetDeviceProperties(&p, 0));
  if (!p.cooperativeLaunch) return printf("no cooperative launch\n"), 1;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum, 128, 0));
  if (blocks * p.multiProcessorCount < 4) return printf("no room\n"), 1;
  float *a, *parts, *out;
  CHECK(cudaMalloc(&a, n * sizeof(float)));
  CHECK(cudaMalloc(&parts, 4 * sizeof(float)));
  CHECK(cudaMallocHost(&out, sizeof(float)));
  CHECK(cudaMemcpy(a, in.data(), n * sizeof(float), cudaMemcpyDefault));
  CHECK(cudaMemset(parts, 0, 4 * sizeof(float)));
  void* arguments[] = {&a, &parts, &out, &n};
  CHECK(cudaLaunchCooperativeKernel(sum, dim3(4), dim3(128), arguments, 0, 0));
  CHECK(cudaDeviceSynchronize());
  got = *out;
  if (got != want) return printf("wrong: %g, not %g\n", got, want), 1;
  printf("right\n");
  return 0;
}
#endif
