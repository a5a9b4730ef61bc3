// Tensor cores by way of nvcuda::wmma and inline PTX.
//
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
#define KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(128) name(float* a, float* b, float* c, int n)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)

// z += x · y, of elements of a type, x and y stored by rows or columns.
template <typename T, typename X, typename Y, int kM, int kN, int kK, typename Z>
__device__ __forceinline__ void Multiply(wmma::fragment<wmma::accumulator, kM, kN, kK, Z>& z,
                                         const T* at_x, const T* at_y, unsigned stride) {
  wmma::fragment<wmma::matrix_a, kM, kN, kK, T, X> x;
  wmma::fragment<wmma::matrix_b, kM, kN, kK, T, Y> y;
  wmma::load_matrix_sync(x, at_x, stride);
  wmma::load_matrix_sync(y, at_y, stride);
  wmma::mma_sync(z, x, y, z);
}

KERNEL(wmma_half) {
  __shared__ __half s[16 * 16];
  __shared__ float out[4][256];
  for (int k = threadIdx.x; k < 256; k += 128) s[k] = __float2half(a[k]);
  __syncthreads();
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
  wmma::fill_fragment(z, 0.f);
  Multiply<__half, wmma::row_major, wmma::col_major>(z, s, s, 16);
  wmma::store_matrix_sync(out[threadIdx.x / 32], z, 16, wmma::mem_row_major);
  __syncthreads();
  if (blockIdx.x == 0) c[threadIdx.x] = out[0][threadIdx.x];
}
KERNEL(wmma_bfloat) {
  __shared__ __nv_bfloat16 s[16 * 16];
  __shared__ float out[256];
  for (int k = threadIdx.x; k < 256; k += 128) s[k] = __float2bfloat16(a[k]);
  __syncthreads();
  if (threadIdx.x < 32) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::fill_fragment(z, 1.f);
    Multiply<__nv_bfloat16, wmma::col_major, wmma::row_major>(z, s, s, 16);
    for (int k = 0; k < z.num_elements; ++k) z.x[k] *= 2;
    wmma::store_matrix_sync(out, z, 16, wmma::mem_col_major);
  }
  __syncthreads();
  if (blockIdx.x == 0) c[threadIdx.x] = out[threadIdx.x];
}
KERNEL(wmma_tf32) {
  __shared__ float out[256];
  if (threadIdx.x < 32) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> z;
    wmma::fill_fragment(z, 0.f);
    wmma::load_matrix_sync(x, a, 8);
    wmma::load_matrix_sync(y, b, 8);
    for (int k = 0; k < x.num_elements; ++k) x.x[k] = wmma::__float_to_tf32(x.x[k]);
    for (int k = 0; k < y.num_elements; ++k) y.x[k] = wmma::__float_to_tf32(y.x[k]);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(out, z, 16, wmma::mem_row_major);
  }
  __syncthreads();
  if (blockIdx.x == 0) c[threadIdx.x] = out[threadIdx.x];
}
KERNEL(wmma_bytes) {
  __shared__ int out[256];
  if (threadIdx.x < 32) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> z;
    wmma::fill_fragment(z, 3);
    Multiply<signed char, wmma::row_major, wmma::col_major>(z, reinterpret_cast<const signed char*>(a), reinterpret_cast<const signed char*>(b), 16);
    wmma::store_matrix_sync(out, z, 16, wmma::mem_row_major);
  }
  __syncthreads();
  if (blockIdx.x == 0) c[threadIdx.x] = out[threadIdx.x];
}
KERNEL(wmma_double) {
  __shared__ double out[64], x0[32], y0[32];
  if (threadIdx.x < 32) x0[threadIdx.x] = a[threadIdx.x], y0[threadIdx.x] = b[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) {
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> z;
    wmma::fill_fragment(z, 0.);
    Multiply<double, wmma::row_major, wmma::col_major>(z, x0, y0, 4);
    wmma::store_matrix_sync(out, z, 8, wmma::mem_row_major);
  }
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x < 64) c[threadIdx.x] = out[threadIdx.x];
}
KERNEL(wmma_half_sums) {
  __shared__ __half s[256], out[256];
  for (int k = threadIdx.x; k < 256; k += 128) s[k] = __float2half(a[k]);
  __syncthreads();
  if (threadIdx.x < 32) {
    wmma::fragment<wmma::matrix_a, 32, 8, 16, __half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, __half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 32, 8, 16, __half> z;
    wmma::fill_fragment(z, __float2half(0.f));
    wmma::load_matrix_sync(y, s, 16);
    wmma::fill_fragment(x, __float2half(0.5f));
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(out, z, 8, wmma::mem_row_major);
  }
  __syncthreads();
  if (blockIdx.x == 0) c[threadIdx.x] = __half2float(out[threadIdx.x]);
}
KERNEL(mma_inline) {
  unsigned x[4], y[2];
  float z[4] = {0, 0, 0, 0};
  for (int k = 0; k < 4; ++k) x[k] = __float_as_uint(a[ME]) & 0x3fff3fff;
  for (int k = 0; k < 2; ++k) y[k] = __float_as_uint(b[ME]) & 0x3fff3fff;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(z[0]), "+f"(z[1]), "+f"(z[2]), "+f"(z[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  c[ME] = z[0] + z[1] + z[2] + z[3];
}
KERNEL(ldmatrix_orders) {  // modifiers as ptxas takes them
  __shared__ alignas(128) __half s[32 * 8];
  for (int k = threadIdx.x; k < 256; k += 128) s[k] = __float2half(a[k]);
  __syncthreads();
  unsigned r[4], at = static_cast<unsigned>(__cvta_generic_to_shared(s + threadIdx.x % 32 * 8));
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
  unsigned q;
  asm volatile("ldmatrix.sync.aligned.x1.trans.m8n8.shared.b16 {%0}, [%1];" : "=r"(q) : "r"(at));
  c[ME] = __uint_as_float((r[0] ^ r[1] ^ r[2] ^ r[3] ^ q) & 0x3fffffff);
}
KERNEL(mma_double) {
  double z[2] = {0, 0};
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(z[0]), "+d"(z[1]) : "d"(double(a[ME])), "d"(double(b[ME])));
  c[ME] = z[0] + z[1];
}
KERNEL(mma_bits) {
  int z[2] = {0, 0};
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(z[0]), "+r"(z[1]) : "r"(__float_as_int(a[ME])), "r"(__float_as_int(b[ME])));
  c[ME] = z[0] + z[1];
}
