// Synchronisation bugs of public issue threads, each cut down to a kernel that makes the mistake
// and one that has it mended (docs/caught.md names the threads; caught.txt says what must be found).
//
// SPDX-License-Identifier: Apache-2.0
#include <cuda/ptx>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#define HEAD extern "C" __global__ void __launch_bounds__(128)
#define ARGS (float* a, float* b, float* c, int n)
#define PAIR __cluster_dims__(2, 1, 1)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)
// The same body twice: with the mistake, and mended.
#define TWICE(name) \
  template <bool kMended> __device__ __forceinline__ void name##_body ARGS; \
  HEAD bad_##name ARGS { name##_body<false>(a, b, c, n); } \
  HEAD name ARGS { name##_body<true>(a, b, c, n); } \
  template <bool kMended> __device__ __forceinline__ void name##_body ARGS
#define TWICE_PAIR(name) \
  template <bool kMended> __device__ __forceinline__ void name##_body ARGS; \
  HEAD PAIR bad_##name ARGS { name##_body<false>(a, b, c, n); } \
  HEAD PAIR name ARGS { name##_body<true>(a, b, c, n); } \
  template <bool kMended> __device__ __forceinline__ void name##_body ARGS
namespace ptx = cuda::ptx;
__device__ __forceinline__ unsigned At(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ unsigned Peer(unsigned at, unsigned rank) {
  unsigned to;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at), "r"(rank));
  return to;
}
__device__ __forceinline__ void Wait(uint64_t* bar, unsigned parity) {
  while (!ptx::mbarrier_try_wait_parity(bar, parity)) {}
}
__device__ __forceinline__ void ClusterSync() {
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}
__device__ __forceinline__ void Load(void* to, const void* from, unsigned bytes, uint64_t* bar) {
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, bar, bytes);
  ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, to, from, bytes, bar);
}

// The state is widened to f32 in shared memory and stored by a bulk copy behind __syncthreads alone.
TWICE(store_without_fence) {
  __shared__ alignas(128) float s[128];
  s[threadIdx.x] = a[ME];
  if (kMended) ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, c + blockIdx.x * 128, s, sizeof s);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
// A CTA of a pair fills its own memory and says so at the leader's barrier, at the scope of a CTA.
TWICE_PAIR(arrive_of_cta_scope) {
  __shared__ float s[128];
  __shared__ uint64_t bar;
  unsigned rank = ptx::get_sreg_cluster_ctarank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 128);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  ClusterSync();
  if (rank == 1) {
    s[threadIdx.x] = a[ME];
    if (kMended)
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(Peer(At(&bar), 0)) : "memory");
    else
      asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(Peer(At(&bar), 0)) : "memory");
  } else {
    unsigned done = 0;
    while (done == 0)
      if (kMended)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(At(&bar)) : "memory");
      else
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(At(&bar)) : "memory");
    float x;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(Peer(At(s + 127 - threadIdx.x), 1)) : "memory");
    c[ME] = x;
  }
  ClusterSync();
}
// A buffer that was read by ordinary loads is filled again by a bulk copy.
TWICE(load_over_reads) {
  __shared__ alignas(128) float s[128];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 1);
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 2; ++k) {
    if (threadIdx.x == 0) Load(s, a + (blockIdx.x + k) % 4 * 128, sizeof s, &bar);
    Wait(&bar, k);
    sum += s[127 - threadIdx.x];
    if (kMended) ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
  }
  c[ME] = sum;
}
// A ring of two: the next load into a stage waits until one store at most is pending, which may be
// the one that reads this stage.
TWICE(ring_waits_for_one_less) {
  __shared__ alignas(128) float s[2][128];
  __shared__ uint64_t bar[2];
  if (threadIdx.x != 0) return;
  for (int k = 0; k < 2; ++k) ptx::mbarrier_init(&bar[k], 1);
  ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  for (int k = 0; k < 2; ++k) Load(s[k], a + k * 128, 512, &bar[k]);
  for (int k = 0; k < 4; ++k) {
    Wait(&bar[k % 2], k / 2);
    if (blockIdx.x == 0) ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, c + k * 128, s[k % 2], 512);
    ptx::cp_async_bulk_commit_group();
    if (k >= 2) continue;
    if (kMended)
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    else
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<1>());
    Load(s[k % 2], a + (k + 2) * 128, 512, &bar[k % 2]);
  }
  ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}
// Memory of an mbarrier is used for data, and nobody invalidated it.
TWICE(barrier_memory_reused) {
  __shared__ alignas(128) float s[128];
  __shared__ alignas(16) uint64_t bar[2];
  if (threadIdx.x == 0) ptx::mbarrier_init(&bar[0], 1);
  __syncthreads();
  if (threadIdx.x == 0) Load(s, a + blockIdx.x * 128, sizeof s, &bar[0]);
  Wait(&bar[0], 0);
  float x = s[threadIdx.x];
  __syncthreads();
  if (kMended) {
    if (threadIdx.x == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(At(&bar[0])) : "memory");
    __syncthreads();
  }
  int* word = reinterpret_cast<int*>(bar);
  if (threadIdx.x < 4) word[threadIdx.x] = threadIdx.x;
  __syncthreads();
  c[ME] = x + word[threadIdx.x % 4];
}
// Two barriers of one kernel were given the same place.
TWICE(two_inits) {
  __shared__ alignas(128) float s[128];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    if (kMended) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(At(&bar)) : "memory");
    ptx::mbarrier_init(&bar, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) Load(s, a + blockIdx.x * 128, sizeof s, &bar);
  Wait(&bar, 0);
  c[ME] = s[127 - threadIdx.x];
}
// A copy to all CTAs of a cluster signals each one's barrier; only the issuer's expects the bytes.
TWICE_PAIR(multicast_expected_by_one) {
  __shared__ alignas(128) float s[128];
  __shared__ uint64_t bar;
  unsigned rank = ptx::get_sreg_cluster_ctarank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    if (kMended || rank == 0)
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof s);
  }
  ClusterSync();
  if (threadIdx.x == 0 && rank == 0)
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, a + blockIdx.x / 2 * 128, sizeof s, &bar, static_cast<uint16_t>(3));
  Wait(&bar, 0);
  c[ME] = s[127 - threadIdx.x];
  ClusterSync();
}
// The kernel ends without a last cluster barrier, while the peer may still read this CTA's memory.
TWICE_PAIR(exit_before_peer) {
  __shared__ float s[128];
  unsigned rank = ptx::get_sreg_cluster_ctarank();
  s[threadIdx.x] = a[ME];
  ClusterSync();
  float x;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(Peer(At(s + threadIdx.x), rank ^ 1)) : "memory");
  c[ME] = x;
  if (kMended) ClusterSync();
}
// A buffer that the peer fills by multicast is used again: both CTAs must be done with it.
TWICE_PAIR(multicast_over_peer_reads) {
  __shared__ alignas(128) float s[128];
  __shared__ uint64_t bar;
  unsigned rank = ptx::get_sreg_cluster_ctarank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  ClusterSync();
  float sum = 0;
  for (int k = 0; k < 2; ++k) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof s);
      if (rank == 0)
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, a + (blockIdx.x / 2 + k) % 4 * 128, sizeof s, &bar, static_cast<uint16_t>(3));
    }
    Wait(&bar, k);
    sum += s[127 - threadIdx.x];
    ptx::fence_proxy_async(ptx::space_shared);
    if (kMended) ClusterSync(); else __syncthreads();
  }
  c[ME] = sum;
  ClusterSync();
}
// 48 of 64 threads take part: a compiler dropped the barrier that it could not count.
TWICE(partial_warp_barrier) {
  __shared__ float s[128];
  if (threadIdx.x < 48) {
    s[threadIdx.x] = a[ME];
    if (kMended) asm volatile("barrier.sync 1, 64;" ::: "memory");
    c[ME] = s[47 - threadIdx.x];
  } else if (threadIdx.x < 64 && kMended) {
    asm volatile("barrier.sync 1, 64;" ::: "memory");
  }
}
// One tile is staged by all threads and read by two groups; the next pass fills it again.
TWICE(loop_without_back_barrier) {
  __shared__ float s[128];
  float sum = 0;
  for (int k = 0; k < 3; ++k) {
    s[threadIdx.x] = a[(ME + k * 128) % n];
    __syncthreads();
    sum += threadIdx.x < 64 ? s[threadIdx.x + 64] : 2 * s[threadIdx.x - 64];
    if (kMended) __syncthreads();
  }
  c[ME] = sum;
}
// Each warp copies a quarter, waits for its own copies and for its own lanes; all warps read all.
TWICE(copies_synced_by_warp) {
  __shared__ alignas(16) float s[128];
  __pipeline_memcpy_async(s + threadIdx.x, a + ME, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  if (kMended) __syncthreads(); else __syncwarp();
  c[ME] = s[127 - threadIdx.x];
}
// Some threads copy asynchronously; the barrier is taken for the copies' end.
TWICE(barrier_without_wait) {
  __shared__ alignas(16) float s[32], t[128];
  if (threadIdx.x < 32) __pipeline_memcpy_async(s + threadIdx.x, b + threadIdx.x, 4);
  if (kMended && threadIdx.x < 32) asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  for (int k = 0; k < 2; ++k) {
    __pipeline_memcpy_async(t + threadIdx.x, a + (ME + k) % n, 4);
    asm volatile("cp.async.wait_all;" ::: "memory");
    c[ME] = t[threadIdx.x] + s[threadIdx.x % 32];
  }
}
// The main loop leaves its last copies under way, the epilogue writes over the same memory.
TWICE(epilogue_over_copies) {
  __shared__ alignas(16) float s[2][128];
  __pipeline_memcpy_async(&s[0][threadIdx.x], a + ME, 4);
  __pipeline_commit();
  __pipeline_memcpy_async(&s[1][threadIdx.x], b + ME, 4);  // one tile more than there is
  __pipeline_commit();
  __pipeline_wait_prior(1);
  __syncthreads();
  float x = s[0][127 - threadIdx.x];
  if (kMended) {
    __pipeline_wait_prior(0);
    __syncthreads();
  }
  s[1][127 - threadIdx.x] = x;
  __syncthreads();
  c[ME] = s[1][threadIdx.x];
  __pipeline_wait_prior(0);
}
__device__ int gTurn;
__device__ float gPartial[128];
// CTAs add to a tile in turn; the turn is handed on before the sum is there for all.
TWICE(turn_without_fence) {
  if (threadIdx.x == 0)
    while (*const_cast<volatile int*>(&gTurn) != static_cast<int>(blockIdx.x)) {}
  __syncthreads();
  __threadfence();
  gPartial[threadIdx.x] = (blockIdx.x == 0 ? 0 : gPartial[threadIdx.x]) + a[ME];
  if (kMended) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *const_cast<volatile int*>(&gTurn) = blockIdx.x == 3 ? 0 : blockIdx.x + 1;
  if (blockIdx.x == 3) c[threadIdx.x] = gPartial[threadIdx.x];
}
// Lanes hand a sum on within a warp; lane 0's word is written where the others read it.
TWICE(warp_reduce_without_sync) {
  __shared__ float s[128];
  float* mine = s + threadIdx.x / 32 * 32;
  const unsigned lane = threadIdx.x % 32;
  s[threadIdx.x] = a[ME];
  __syncwarp();
  for (unsigned d = 1; d < 32; d *= 2) {
    float x = lane + d < 32 ? mine[lane + d] : 0;
    __syncwarp();
    mine[lane] += x;
    __syncwarp();
  }
  if (lane == 0) mine[0] *= 2;
  if (kMended) __syncwarp();
  c[ME] = mine[0];
}
// A normaliser in one word: read by all, and written again in the next pass.
TWICE(word_reused_in_loop) {
  __shared__ float sw[4];
  float out = 0;
  for (int k = 0; k < 2; ++k) {
    float x = a[(ME + k) % n];
    float sum = x;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) sw[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) sw[0] = sw[0] + sw[1] + sw[2] + sw[3];
    __syncthreads();
    out += x * sw[0];
    if (kMended) __syncthreads();
  }
  c[ME] = out;
}
// A barrier in a branch that some threads of a warp take.
TWICE(barrier_in_branch) {
  __shared__ float s[128];
  s[threadIdx.x] = a[ME];
  __syncthreads();
  float x = 0;
  if (threadIdx.x % 4 == 0) {
    x = s[threadIdx.x] + s[threadIdx.x + 3];
    if (!kMended) __syncthreads();
    s[threadIdx.x] = x;
  }
  __syncthreads();
  c[ME] = s[threadIdx.x / 4 * 4];
}
// Consumers of both CTAs of a pair must be done before a multicast; the barrier counts one CTA's.
TWICE_PAIR(empty_counts_one_cta) {
  __shared__ alignas(128) float s[128];
  __shared__ uint64_t full, empty;
  unsigned rank = ptx::get_sreg_cluster_ctarank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&empty, kMended ? 6 : 3);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  ClusterSync();
  if (threadIdx.x == 0) {
    for (int k = 0; k < 3; ++k) {
      unsigned done = k == 0 || rank == 1;
      while (done == 0)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(At(&empty)), "r"((k - 1) & 1) : "memory");
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof s);
      if (rank == 0)
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, a + k * 128, sizeof s, &full, static_cast<uint16_t>(3));
      Wait(&full, k & 1);
    }
  } else if (threadIdx.x >= 32) {
    float sum = 0;
    for (int k = 0; k < 3; ++k) {
      Wait(&full, k & 1);
      sum += s[threadIdx.x];
      ptx::fence_proxy_async(ptx::space_shared);
      __syncwarp();
      if (threadIdx.x % 32 == 0 && (kMended || rank == 0))
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(Peer(At(&empty), 0)) : "memory");
    }
    c[ME] = sum;
  }
  ClusterSync();
}
// A stage is given back before the products that read it are waited for.
TWICE(stage_released_before_products) {
  __shared__ alignas(1024) unsigned short sa[64 * 16], sb[8 * 16];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&empty, 128);
  }
  __syncthreads();
  float d[4] = {0, 0, 0, 0};
  const auto desc = [](const void* p) {  // no swizzle; matrices of 8 rows by 16 bytes, side by side
    return static_cast<uint64_t>((At(p) & 0x3ffff) >> 4) | (8ull << 16) | (16ull << 32);
  };
  for (int k = 0; k < 2; ++k) {
    if (threadIdx.x == 0) {
      if (k > 0) Wait(&empty, 0);
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 1024 + 256);
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, sa, a, 1024, &full);
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, sb, b, 256, &full);
    }
    Wait(&full, k);
    asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");  // in their registers
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{ wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(desc(sa)), "l"(desc(sb)) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (kMended) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    ptx::mbarrier_arrive(&empty);
    if (!kMended && k == 1) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  c[ME] = d[0] + d[1] + d[2] + d[3];
}
