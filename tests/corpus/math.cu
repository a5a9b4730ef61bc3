// The mathematical library, as nvcc expands it.
//
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(128) name(float* a, float* b, float* c, int n)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)
#define UNARY(name, expression) \
  KERNEL(name) { float x = a[ME], y = b[ME]; c[ME] = expression; (void)x, (void)y; }
UNARY(trig, sinf(x) + cosf(y) + tanf(x))
UNARY(trig_large, sinf(x * 1e8f) + cosf(y * 1e20f))
UNARY(exponents, expf(x) + exp2f(y) + logf(fabsf(y) + 1) + log2f(fabsf(x)) + log1pf(fabsf(x)) + expm1f(y))
UNARY(powers, powf(fabsf(x), y) + cbrtf(x) + hypotf(x, y) + rsqrtf(fabsf(y)))
UNARY(specials, erff(x) + tgammaf(y) + lgammaf(x) + erfcf(y) + normcdff(x))
UNARY(hyperbolic, tanhf(x) + sinhf(y) + atan2f(x, y) + asinf(x * 0.5f) + acoshf(fabsf(x) + 1))
UNARY(rounding, floorf(x) + ceilf(y) + rintf(x) + truncf(y) + roundf(x) + static_cast<float>(lrintf(y)))
UNARY(remainders, fmodf(x, y + 2) + remainderf(x, y + 3) + modff(x, &y) + ldexpf(x, 3))
UNARY(fast, __expf(x) + __sinf(y) + __cosf(x) + __logf(fabsf(y) + 1) + __fdividef(x, y) + __powf(fabsf(x), y))
UNARY(directed, __fadd_rz(x, y) + __fmul_ru(x, y) + __fmaf_rd(x, y, x) + __fdiv_ru(x, y) + __fsqrt_rd(fabsf(x)) + __frcp_rz(y))
UNARY(doubles, static_cast<float>(sin(double(x)) + exp(double(y)) + sqrt(fabs(double(x))) / (double(y) + 3)))
UNARY(doubles_more, static_cast<float>(pow(fabs(double(x)), double(y)) + log(fabs(double(x)) + 1) + atan(double(y)) + cos(double(y) * 1e10)))
UNARY(doubles_round, static_cast<float>(__dadd_rz(x, y) + __dmul_ru(x, y) + __fma_rd(x, y, x) + floor(double(x)) + rint(double(y)) + __double2int_rz(x) + fmin(double(x), double(y))))
UNARY(conversions, static_cast<float>(__float2int_rn(x) + __float2uint_ru(fabsf(y)) + __float2ll_rz(x * 1e9f)) + __int2float_rd(ME * 77) + static_cast<float>(static_cast<unsigned char>(fabsf(x) * 200)))
UNARY(classes, static_cast<float>(isnan(x) + 2 * isinf(y) + 4 * signbit(x) + isfinite(x / (y - y))))
UNARY(carries, static_cast<float>(__mul64hi(ME * 0x123456789abcdefll, 0x7766554433221100ll) >> 33))
UNARY(halves, __half2float(hexp(__float2half(x))) + __half2float(hsqrt(__float2half(fabsf(y)))) + __half2float(hsin(__float2half(x))) + __half2float(hlog(__float2half(fabsf(y) + 1))))
UNARY(bfloats, __bfloat162float(htanh(__float2bfloat16(x))) + __bfloat162float(hrsqrt(__float2bfloat16(fabsf(y)))) + __bfloat162float(__hmin(__float2bfloat16(x), __float2bfloat16(y))))
