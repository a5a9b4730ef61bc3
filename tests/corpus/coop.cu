// Cooperative groups.
//
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
#define KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(128) name(float* a, float* b, float* c, int n)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(group_tile) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  float x = cg::reduce(tile, a[ME], cg::plus<float>());
  if (tile.thread_rank() == 0) c[ME] = x;
}
KERNEL(group_integers) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  int x = cg::reduce(tile, static_cast<int>(a[ME] * 100), cg::greater<int>());
  int y = cg::inclusive_scan(tile, static_cast<int>(threadIdx.x));
  c[ME] = x + y;
}
KERNEL(group_coalesced) {
  if (a[ME] > 0) {
    auto active = cg::coalesced_threads();
    float x = cg::reduce(active, a[ME], cg::plus<float>());
    c[ME] = x + active.thread_rank();
  }
}
KERNEL(group_labels) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  auto same = cg::labeled_partition(tile, static_cast<int>(threadIdx.x % 3));
  c[ME] = same.size() + same.shfl(a[ME], 0);
}
KERNEL(group_block) {
  __shared__ float s[128];
  auto block = cg::this_thread_block();
  s[block.thread_rank()] = a[ME];
  block.sync();
  c[ME] = s[127 - block.thread_rank()];
}
KERNEL(group_memcpy) {
  __shared__ float s[128];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, a + blockIdx.x * 128, sizeof s);
  cg::wait(block);
  c[ME] = s[127 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1) group_cluster(float* a, float* b, float* c, int n) {
  __shared__ float s[128];
  auto cluster = cg::this_cluster();
  s[threadIdx.x] = a[ME];
  cluster.sync();
  const float* peer = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
  c[ME] = peer[threadIdx.x];
  cluster.sync();
}
extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1) group_cluster_split(float* a, float* b, float* c, int n) {
  __shared__ float s[128];
  auto cluster = cg::this_cluster();
  s[threadIdx.x] = a[ME];
  auto token = cluster.barrier_arrive();
  float x = b[ME];
  cluster.barrier_wait(std::move(token));
  c[ME] = x + *cluster.map_shared_rank(s + threadIdx.x, cluster.block_rank() ^ 1);
  cluster.sync();
}
// Missing: the cluster barrier before the peer may exit or read.
extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1) bad_cluster_read(float* a, float* b, float* c, int n) {
  __shared__ float s[128];
  auto cluster = cg::this_cluster();
  s[threadIdx.x] = a[ME];
  __syncthreads();
  c[ME] = *cluster.map_shared_rank(s + threadIdx.x, cluster.block_rank() ^ 1);
  cluster.sync();
}
KERNEL(group_grid) {
  auto grid = cg::this_grid();
  c[ME] = a[ME];
  grid.sync();
  b[ME] = c[(ME + 128) % n];
}
KERNEL(group_invoke) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  cg::invoke_one(tile, [&] { c[ME] = a[ME]; });
}
KERNEL(group_reduce_atomic) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  cuda::atomic_ref<int, cuda::thread_scope_device> sum(*reinterpret_cast<int*>(c));
  cg::reduce_update_async(tile, sum, 1, cg::plus<int>());
}
KERNEL(group_binary) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  auto part = cg::binary_partition(tile, a[ME] > 0);
  c[ME] = part.size() * 100 + part.thread_rank() + part.any(b[ME] > 0.9f);
}
