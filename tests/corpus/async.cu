// Barriers, pipelines and asynchronous copies through libcu++.
//
// SPDX-License-Identifier: Apache-2.0
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cuda/semaphore>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#define KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(128) name(float* a, float* b, float* c, int n)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)
namespace ptx = cuda::ptx;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init

KERNEL(barrier_arrive_wait) {
  __shared__ Barrier bar;
  __shared__ float s[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int k = 0; k < 3; ++k) {
    s[threadIdx.x] = a[ME] + k;
    bar.arrive_and_wait();
    c[ME] = s[threadIdx.x ^ 1];
    bar.arrive_and_wait();
  }
}
KERNEL(barrier_split) {
  __shared__ Barrier bar;
  __shared__ float s[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  s[threadIdx.x] = a[ME];
  auto token = bar.arrive();
  float x = b[ME];
  bar.wait(std::move(token));
  c[ME] = x + s[127 - threadIdx.x];
}
KERNEL(bad_barrier_no_wait) {
  __shared__ Barrier bar;
  __shared__ float s[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  s[threadIdx.x] = a[ME];
  auto token = bar.arrive();
  (void)token;
  c[ME] = s[127 - threadIdx.x];
}
KERNEL(barrier_memcpy) {
  __shared__ Barrier bar;
  __shared__ alignas(16) float s[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(s + threadIdx.x, a + ME, sizeof(float), bar);
  bar.arrive_and_wait();
  c[ME] = s[127 - threadIdx.x];
}
KERNEL(bulk_load) {
  __shared__ Barrier bar;
  __shared__ alignas(128) float s[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(s, a + blockIdx.x * 128, cuda::aligned_size_t<16>(sizeof s), bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof s);
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  c[ME] = s[127 - threadIdx.x];
}
KERNEL(bulk_store) {
  __shared__ alignas(128) float s[128];
  s[threadIdx.x] = a[ME];
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, c + blockIdx.x * 128, s, sizeof s);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
KERNEL(bad_bulk_store_fence) {
  __shared__ alignas(128) float s[128];
  s[threadIdx.x] = a[ME];
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, c + blockIdx.x * 128, s, sizeof s);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
KERNEL(bulk_reduce) {
  __shared__ alignas(128) float s[128];
  s[threadIdx.x] = a[ME];
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, c, s, sizeof s);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}
KERNEL(pipeline_two) {
  __shared__ alignas(16) float s[2][128];
  auto pipe = cuda::make_pipeline();
  pipe.producer_acquire();
  cuda::memcpy_async(&s[0][threadIdx.x], a + ME, sizeof(float), pipe);
  pipe.producer_commit();
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    pipe.producer_acquire();
    if (k < 3) cuda::memcpy_async(&s[(k + 1) % 2][threadIdx.x], a + (ME + 128 * (k + 1)) % n, sizeof(float), pipe);
    pipe.producer_commit();
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    sum += s[k % 2][threadIdx.x];
    pipe.consumer_release();
  }
  c[ME] = sum;
}
KERNEL(pipeline_shared) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ alignas(16) float s[2][128];
  auto block = threadIdx.x;
  auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    pipe.producer_acquire();
    cuda::memcpy_async(&s[k % 2][block], a + (ME + 128 * k) % n, sizeof(float), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    sum += s[k % 2][127 - block];
    pipe.consumer_release();
  }
  c[ME] = sum;
}
KERNEL(pipeline_intrinsics) {
  __shared__ alignas(16) float s[128];
  __pipeline_memcpy_async(s + threadIdx.x, a + ME, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  c[ME] = s[127 - threadIdx.x];
}
KERNEL(bad_pipeline_wait) {
  __shared__ alignas(16) float s[128];
  __pipeline_memcpy_async(s + threadIdx.x, a + ME, 4);
  __pipeline_commit();
  __syncthreads();
  c[ME] = s[127 - threadIdx.x];
  __pipeline_wait_prior(0);
}
KERNEL(atomic_orders) {
  cuda::atomic_ref<int, cuda::thread_scope_device> x(*reinterpret_cast<int*>(c));
  x.fetch_add(1, cuda::memory_order_relaxed);
  x.fetch_max(5, cuda::memory_order_acq_rel);
  int old = x.load(cuda::memory_order_acquire);
  x.compare_exchange_weak(old, old + 1, cuda::memory_order_seq_cst);
  x.fetch_or(64);
}
__device__ cuda::atomic<int, cuda::thread_scope_device> gFlag;
__device__ float gValue;
template <cuda::memory_order kStore, cuda::memory_order kLoad>
__device__ __forceinline__ void Message(const float* a, float* c) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    gValue = a[0];
    gFlag.store(1, kStore);
  }
  if (blockIdx.x == 1 && threadIdx.x == 0) {
    while (gFlag.load(kLoad) == 0) {}
    c[0] = gValue;
  }
}
KERNEL(message) { Message<cuda::memory_order_release, cuda::memory_order_acquire>(a, c); }
KERNEL(bad_message_relaxed) {
  Message<cuda::memory_order_relaxed, cuda::memory_order_relaxed>(a, c);
}
KERNEL(message_fences) {
  auto* flag = reinterpret_cast<int*>(c) + 8;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    c[1] = a[0];
    __threadfence();
    atomicExch(flag, 1);
  }
  if (blockIdx.x == 1 && threadIdx.x == 0) {
    while (atomicAdd(flag, 0) != 1) {}
    __threadfence();
    c[0] = c[1];
  }
}
KERNEL(message_volatile) {  // the old way, which the guide still shows
  volatile int* flag = reinterpret_cast<int*>(c) + 8;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    c[1] = a[0];
    __threadfence();
    *flag = 1;
  }
  if (blockIdx.x == 1 && threadIdx.x == 0) {
    while (*flag != 1) {}
    __threadfence();
    c[0] = *reinterpret_cast<volatile float*>(c + 1);
  }
}
KERNEL(spin_lock) {
  int* lock = reinterpret_cast<int*>(c) + 8;
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
    __threadfence();
    c[0] = c[0] + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}
KERNEL(bad_spin_lock) {  // no fence before the release
  int* lock = reinterpret_cast<int*>(c) + 8;
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
    c[0] = c[0] + 1;
    atomicExch(lock, 0);
  }
}
extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1) store_async(float* a, float* b, float* c, int n) {
  __shared__ alignas(16) float s[128];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 512);
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  unsigned rank = ptx::get_sreg_cluster_ctarank();
  unsigned to, signal;
  unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(s + threadIdx.x)), my = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(here), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(signal) : "r"(my), "r"(rank ^ 1));
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(__float_as_uint(a[ME])), "r"(signal) : "memory");
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  c[ME] = s[threadIdx.x];
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}
extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1) reduce_async(float* a, float* b, float* c, int n) {
  __shared__ alignas(16) unsigned s[4];
  __shared__ uint64_t bar;
  if (threadIdx.x < 4) s[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 512);
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  unsigned rank = ptx::get_sreg_cluster_ctarank(), to, signal;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(s + threadIdx.x % 4))), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(signal) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(&bar))), "r"(rank ^ 1));
  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"(to), "r"(threadIdx.x), "r"(signal) : "memory");
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  c[ME] = s[threadIdx.x % 4];
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}
KERNEL(latch_once) {
  using Latch = cuda::latch<cuda::thread_scope_block>;
  __shared__ alignas(Latch) char room[sizeof(Latch)];
  __shared__ float s[128];
  Latch& latch = *reinterpret_cast<Latch*>(room);
  if (threadIdx.x == 0) new (&latch) Latch(128);
  __syncthreads();
  s[threadIdx.x] = a[ME];
  latch.arrive_and_wait();
  c[ME] = s[127 - threadIdx.x];
}
KERNEL(ring_two_roles) {  // one warp fills by bulk copies, the others read
  __shared__ alignas(128) float s[2][128];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0)
    for (int k = 0; k < 2; ++k) ptx::mbarrier_init(&full[k], 1), ptx::mbarrier_init(&empty[k], 96);
  __syncthreads();
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0)
      for (int k = 0; k < 8; ++k) {
        while (!ptx::mbarrier_try_wait_parity(&empty[k % 2], k / 2 % 2 ^ 1)) {}
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[k % 2], 512);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s[k % 2], a + k % 4 * 128, 512, &full[k % 2]);
      }
  } else {
    float sum = 0;
    for (int k = 0; k < 8; ++k) {
      while (!ptx::mbarrier_try_wait_parity(&full[k % 2], k / 2 % 2)) {}
      sum += s[k % 2][threadIdx.x];
      ptx::mbarrier_arrive(&empty[k % 2]);
    }
    c[ME] = sum;
  }
}
KERNEL(dependent_launch) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  c[ME] = a[ME];
  asm volatile("griddepcontrol.launch_dependents;");
}
