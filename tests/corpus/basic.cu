// Ordinary kernels: arithmetic, shared memory, warps, atomics. Every kernel of this folder takes
// (a, b, c, n): three arrays of n floats, n = 512, 4 CTAs of 128 threads.
//
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(128) name(float* a, float* b, float* c, int n)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(vector_add) {
  int k = ME;
  if (k < n) c[k] = a[k] + b[k];
}
KERNEL(saxpy_stride) {
  for (int k = ME; k < n; k += gridDim.x * blockDim.x) c[k] = 2.5f * a[k] + b[k];
}
KERNEL(reduce_shared) {
  __shared__ float s[128];
  s[threadIdx.x] = a[ME];
  __syncthreads();
  for (int d = 64; d > 0; d /= 2) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) c[blockIdx.x] = s[0];
}
KERNEL(reduce_shuffle) {
  __shared__ float s[4];
  float x = a[ME];
  for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(~0u, x, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(c, s[0] + s[1] + s[2] + s[3]);
}
KERNEL(transpose) {
  __shared__ float t[16][17];
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
  t[y][x] = a[blockIdx.x * 128 + y * 16 + x];
  __syncthreads();
  c[blockIdx.x * 128 + x * 8 + y] = t[y][x];
}
KERNEL(histogram) {
  __shared__ unsigned h[32];
  if (threadIdx.x < 32) h[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&h[__float_as_uint(a[ME]) >> 27 & 31], 1u);
  __syncthreads();
  if (threadIdx.x < 32) atomicAdd(reinterpret_cast<unsigned*>(c) + threadIdx.x, h[threadIdx.x]);
}
KERNEL(scan_block) {
  __shared__ float s[2][128];
  int t = threadIdx.x, from = 0;
  s[0][t] = a[ME];
  for (int d = 1; d < 128; d *= 2, from ^= 1) {
    __syncthreads();
    s[from ^ 1][t] = s[from][t] + (t >= d ? s[from][t - d] : 0);
  }
  __syncthreads();
  c[ME] = s[from][t];
}
KERNEL(matmul_tiled) {  // 16 × 16 by 16 × 16, one tile per CTA
  __shared__ float x[16][16], y[16][16];
  for (int k = threadIdx.x; k < 256; k += 128) x[k / 16][k % 16] = a[k], y[k / 16][k % 16] = b[k];
  __syncthreads();
  for (int k = threadIdx.x; k < 256; k += 128) {
    float sum = 0;
    for (int j = 0; j < 16; ++j) sum += x[k / 16][j] * y[j][k % 16];
    if (blockIdx.x == 0) c[k] = sum;
  }
}
KERNEL(stencil) {
  __shared__ float s[130];
  int k = ME;
  s[threadIdx.x + 1] = a[k];
  if (threadIdx.x == 0) s[0] = k > 0 ? a[k - 1] : 0;
  if (threadIdx.x == 127) s[129] = k + 1 < n ? a[k + 1] : 0;
  __syncthreads();
  c[k] = s[threadIdx.x] - 2 * s[threadIdx.x + 1] + s[threadIdx.x + 2];
}
KERNEL(bitonic) {
  __shared__ float s[128];
  unsigned t = threadIdx.x;
  s[t] = a[ME];
  for (unsigned k = 2; k <= 128; k *= 2)
    for (unsigned j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      unsigned o = t ^ j;
      if (o > t && ((t & k) == 0) == (s[t] > s[o])) {
        float x = s[t];
        s[t] = s[o], s[o] = x;
      }
    }
  __syncthreads();
  c[ME] = s[t];
}
KERNEL(mandelbrot) {
  float x = 0, y = 0, p = a[ME], q = b[ME];
  int k = 0;
  for (; k < 64 && x * x + y * y < 4; ++k) {
    float z = x * x - y * y + p;
    y = 2 * x * y + q, x = z;
  }
  c[ME] = k;
}
KERNEL(bodies) {
  float f = 0, me = a[ME];
  for (int k = 0; k < n; ++k) {
    float d = a[k] - me, r = rsqrtf(d * d + 1e-3f);
    f += d * r * r * r;
  }
  c[ME] = f;
}
KERNEL(random_walk) {
  unsigned long long s = 88172645463325252ull + ME;
  for (int k = 0; k < 10; ++k) s ^= s << 13, s ^= s >> 7, s ^= s << 17;
  c[ME] = static_cast<float>(s >> 40) * 0x1p-24f;
}
KERNEL(dot_double) {
  double x = static_cast<double>(a[ME]) * b[ME];
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  if (threadIdx.x % 32 == 0) atomicAdd(reinterpret_cast<double*>(c), x);
}
KERNEL(half2_axpy) {
  __half2 x = __floats2half2_rn(a[ME], b[ME]);
  x = __hfma2(x, __float2half2_rn(2.f), x);
  reinterpret_cast<__half2*>(c)[ME] = __hmax2(x, __float2half2_rn(0.f));
}
KERNEL(bfloat_math) {
  __nv_bfloat162 x = __floats2bfloat162_rn(a[ME], b[ME]);
  x = __hmul2(__hadd2(x, x), h2exp(x));
  reinterpret_cast<__nv_bfloat162*>(c)[ME] = x;
}
KERNEL(fp8_round) {
  __nv_fp8_e4m3 x(a[ME]);
  __nv_fp8_e5m2 y(b[ME]);
  c[ME] = static_cast<float>(x) + static_cast<float>(y);
}
KERNEL(dot_bytes) {
  int x = __float_as_int(a[ME]), y = __float_as_int(b[ME]);
  reinterpret_cast<int*>(c)[ME] = __dp4a(x, y, __dp2a_lo(x, y, 7)) + __vadd4(x, y) + __vabsdiffu4(x, y);
}
KERNEL(bits) {
  unsigned x = __float_as_uint(a[ME]), y = __float_as_uint(b[ME]);
  unsigned r = __popc(x) + __clz(y) + __ffs(x) + __brev(y);
  r ^= __byte_perm(x, y, 0x3715) + __funnelshift_l(x, y, x & 63) + __funnelshift_rc(x, y, 40);
  r += __umulhi(x, y) + __uhadd(x, y) + __usad(x, y, 3);
  reinterpret_cast<unsigned*>(c)[ME] = r;
}
KERNEL(wide_integers) {
  unsigned __int128 x = (static_cast<unsigned __int128>(__float_as_uint(a[ME])) << 70) + 12345;
  unsigned __int128 y = x * (__float_as_uint(b[ME]) | 1);
  y += x >> 3;
  y -= 77;
  unsigned long long q = static_cast<unsigned long long>(y >> 64);
  reinterpret_cast<unsigned*>(c)[ME] = static_cast<unsigned>(q) ^ static_cast<unsigned>(y);
}
KERNEL(long_division) {
  unsigned long long x = 0x123456789abcdefull * (ME + 1), y = __float_as_uint(b[ME]) | 1;
  long long z = static_cast<long long>(x) / 1000003 + static_cast<long long>(x % y);
  reinterpret_cast<unsigned*>(c)[ME] = static_cast<unsigned>(z ^ static_cast<long long>(x / y));
}
__constant__ unsigned kTable[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
KERNEL(checksum) {
  unsigned r = ~0u, x = __float_as_uint(a[ME]);
  for (int k = 0; k < 8; ++k) r = kTable[(r ^ x >> 4 * k) & 15] ^ r >> 4;
  reinterpret_cast<unsigned*>(c)[ME] = ~r;
}
__device__ int gTicket;
__device__ float gSums[4];
KERNEL(last_block) {  // the classic of the programming guide
  __shared__ bool last;
  float x = a[ME];
  for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(~0u, x, d);
  __shared__ float s[4];
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    gSums[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
    __threadfence();
    last = atomicAdd(&gTicket, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    float sum = 0;
    for (int k = 0; k < gridDim.x; ++k) sum += gSums[k];
    c[0] = sum;
    gTicket = 0;
  }
}
KERNEL(many_cases) {
  float x = a[ME], r;
  switch (ME % 11) {
    case 0: r = x; break;
    case 1: r = x * x; break;
    case 2: r = -x; break;
    case 3: r = x + 7; break;
    case 4: r = fabsf(x); break;
    case 5: r = 1 / (x * x + 1); break;
    case 6: r = x * 3; break;
    case 7: r = sqrtf(fabsf(x)); break;
    case 8: r = floorf(x * 8); break;
    case 9: r = x - 9; break;
    default: r = 0;
  }
  c[ME] = r;
}
KERNEL(float4_copy) {
  int k = ME;
  if (k * 4 < n) reinterpret_cast<float4*>(c)[k] = reinterpret_cast<const float4*>(a)[k];
}
KERNEL(cached_loads) {
  int k = ME;
  float x = __ldg(a + k) + __ldcg(b + k) + __ldcs(a + k) + __ldca(b + k) + __ldlu(a + k) + __ldcv(b + k);
  __stwt(c + k, x);
}
KERNEL(generic_pointers) {
  __shared__ float s[128];
  s[threadIdx.x] = b[ME];
  __syncthreads();
  float own[4] = {1, 2, 3, a[ME]};
  float* p = a[0] > 1e9f ? own + threadIdx.x % 4 : threadIdx.x % 2 ? s + (threadIdx.x ^ 1) : a + ME;
  c[ME] = *p;
}
