// What threads of a warp and of a CTA owe each other.
//
// SPDX-License-Identifier: Apache-2.0
#define KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(128) name(float* a, float* b, float* c, int n)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(barrier_reductions) {
  int k = __syncthreads_count(a[ME] > 0);
  int all = __syncthreads_and(b[ME] < 2), any = __syncthreads_or(b[ME] > 0.99f);
  c[ME] = k + 1000 * all + 2000 * any;
}
KERNEL(warp_divergent) {
  __shared__ float s[128];
  if (threadIdx.x % 32 < 16) s[threadIdx.x] = a[ME];
  else s[threadIdx.x] = b[ME];
  __syncwarp();
  c[ME] = s[threadIdx.x ^ 16];
}
KERNEL(bad_warp_divergent) {
  __shared__ float s[128];
  s[threadIdx.x] = a[ME];
  c[ME] = s[threadIdx.x ^ 16];
}
KERNEL(bad_volatile_reduce) {  // warp-synchronous code of before Volta
  __shared__ float s[128];
  volatile float* v = s;
  int t = threadIdx.x;
  v[t] = a[ME];
  __syncthreads();
  if (t < 32) {
    v[t] += v[t + 32];
    v[t] += v[t + 16];
    v[t] += v[t + 8];
    v[t] += v[t + 4];
    v[t] += v[t + 2];
    v[t] += v[t + 1];
  }
  if (t == 0) c[blockIdx.x] = v[0];
}
KERNEL(volatile_reduce_synced) {
  __shared__ float s[128];
  volatile float* v = s;
  int t = threadIdx.x;
  v[t] = a[ME];
  __syncthreads();
  if (t < 32)
    for (int d = 32; d > 0; d /= 2) {
      float x = v[t + d];
      __syncwarp();
      v[t] += x;
      __syncwarp();
    }
  if (t == 0) c[blockIdx.x] = v[0];
}
KERNEL(bad_half_barrier) {  // half a warp at a barrier of the CTA
  __shared__ float s[128];
  s[threadIdx.x] = a[ME];
  if (threadIdx.x % 32 < 16) __syncthreads();
  c[ME] = s[threadIdx.x];
}
KERNEL(bad_missing_barrier) {
  __shared__ float s[128];
  s[threadIdx.x] = a[ME];
  c[ME] = s[127 - threadIdx.x];
}
KERNEL(bad_reuse) {  // no barrier before the tile is filled again
  __shared__ float s[128];
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    s[threadIdx.x] = a[(ME + k * 128) % n];
    __syncthreads();
    sum += s[127 - threadIdx.x];
  }
  c[ME] = sum;
}
KERNEL(named_barriers) {
  __shared__ float s[128];
  if (threadIdx.x < 64) {
    s[threadIdx.x] = a[ME];
    asm volatile("bar.sync 1, 64;" ::: "memory");
    c[ME] = s[63 - threadIdx.x];
  } else {
    s[threadIdx.x] = b[ME];
    asm volatile("bar.sync 2, 64;" ::: "memory");
    c[ME] = s[191 - threadIdx.x];
  }
}
KERNEL(named_handoff) {
  __shared__ float s[64];
  if (threadIdx.x < 64) {
    s[threadIdx.x] = a[ME];
    asm volatile("bar.arrive 3, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 3, 128;" ::: "memory");
    c[ME] = s[127 - threadIdx.x];
  }
}
KERNEL(votes) {
  unsigned x = __ballot_sync(~0u, a[ME] > 0);
  c[ME] = __popc(x) + __all_sync(~0u, b[ME] < 2) + __any_sync(~0u, b[ME] > 1) + __popc(__match_any_sync(~0u, threadIdx.x % 5)) + __reduce_add_sync(~0u, threadIdx.x) + __reduce_max_sync(~0u, threadIdx.x);
}
KERNEL(exits_early) {
  __shared__ float s[128];
  s[threadIdx.x] = a[ME];
  if (threadIdx.x >= 96) return;
  __syncthreads();
  c[ME] = s[95 - threadIdx.x];
}
KERNEL(active_atomics) {
  if (a[ME] > 0) {
    unsigned mask = __activemask();
    int leader = __ffs(mask) - 1, base = 0;
    if (threadIdx.x % 32 == leader) base = atomicAdd(reinterpret_cast<int*>(c), __popc(mask));
    base = __shfl_sync(mask, base, leader);
    b[ME] = base + __popc(mask & ((1u << threadIdx.x % 32) - 1));
  }
}
KERNEL(lookback) {  // decoupled look-back over four CTAs
  volatile int* flag = reinterpret_cast<int*>(c) + 256;
  volatile float* sum = c + 272;
  __shared__ float before;
  if (threadIdx.x == 0) {
    float x = 0, own = a[blockIdx.x];
    if (blockIdx.x > 0) {
      while (flag[blockIdx.x - 1] == 0) {}
      __threadfence();
      x = sum[blockIdx.x - 1];
    }
    sum[blockIdx.x] = x + own;
    __threadfence();
    flag[blockIdx.x] = 1;
    before = x;
  }
  __syncthreads();
  if (ME < 256) c[ME] = before;
}
KERNEL(bad_global_race) {
  c[ME % 64] = a[ME];
}
KERNEL(fence_both_sides) {  // store buffering: fences on both sides, no atomics between
  volatile float* v = c;
  if (threadIdx.x == 0 && blockIdx.x < 2) {
    v[blockIdx.x] = 1;
    __threadfence();
    v[4 + blockIdx.x] = v[1 - blockIdx.x];
  }
}
KERNEL(async_clock) {
  long long t = clock64();
  unsigned long long g;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g));
  c[ME] = static_cast<float>((clock64() - t) & 1) + static_cast<float>(g & 0) + static_cast<float>(clock() & 0);
}
KERNEL(trap_unreached) {
  if (n < 0) __trap();
  if (n < -1) asm volatile("brkpt;");
  c[ME] = a[ME];
}
KERNEL(special_registers) {
  unsigned w, l, nw, s, ns, g;
  asm("mov.u32 %0, %%warpid;" : "=r"(w));
  asm("mov.u32 %0, %%laneid;" : "=r"(l));
  asm("mov.u32 %0, %%nwarpid;" : "=r"(nw));
  asm("mov.u32 %0, %%smid;" : "=r"(s));
  asm("mov.u32 %0, %%nsmid;" : "=r"(ns));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(g));
  c[ME] = l + __popc(g) + (w & 0) + (nw & 0) + (s & 0) + (ns & 0);
}
