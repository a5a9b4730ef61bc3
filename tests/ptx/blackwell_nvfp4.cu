// nvfp4: e2m1 with a ue4m3 scale for 16 elements. K a multiple of 256.
//
// nvcc -arch=sm_100a -ptx blackwell_nvfp4.cu
//
// SPDX-License-Identifier: Apache-2.0
#include "blackwell_scaled.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
    gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, const uint8_t* scales_a,
         const uint8_t* scales_b, float* c, int n, int steps) {
  ScaledGemm<4>(a, b, scales_a, scales_b, c, n, steps,
                [](uint32_t d, uint64_t x, uint64_t y, int j, uint32_t sfa, uint32_t sfb, int add) {
                  // e2m1, ue4m3, 128 x 128; a word has the scales of one product.
                  MmaNvf4(d, x, y, 0x08200480u, sfa + 4 * j, sfb + 4 * j, add);
                });
}
