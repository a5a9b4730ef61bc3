// mxfp8: e4m3 with a ue8m0 scale for 32 elements. K a multiple of 128.
//
// nvcc -arch=sm_100a -ptx blackwell_mxfp8.cu
//
// SPDX-License-Identifier: Apache-2.0
#include "blackwell_scaled.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
    gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, const uint8_t* scales_a,
         const uint8_t* scales_b, float* c, int n, int steps) {
  ScaledGemm<1>(a, b, scales_a, scales_b, c, n, steps,
                [](uint32_t d, uint64_t x, uint64_t y, int j, uint32_t sfa, uint32_t sfb, int add) {
                  // e4m3, ue8m0, 128 x 128; the word has the scales of four products.
                  const uint32_t task = 0x08a00000u | j << 4 | j << 29;
                  MmaMxf8(d, x, y, task, sfa, sfb, add);
                });
}
