// Smooths a vector: every element plus its right neighbour. With RACE it does so in place, where
// the neighbour may have been changed already.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#ifdef RACE
extern "C" __global__ void smooth(float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 < n) in[i] = in[i] + in[i + 1];
  if (i < n) out[i] = in[i];
}
#else
extern "C" __global__ void smooth(float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = i + 1 < n ? in[i] + in[i + 1] : in[i];
}
#endif

#ifndef KERNELS_ONLY
#define CHECK(call)                                                                  \
  do {                                                                               \
    const cudaError_t e = call;                                                      \
    if (e != cudaSuccess) return printf("%s: %s\n", #call, cudaGetErrorString(e)), 1; \
  } while (0)

int main() {
  const int n = 1000;
  std::vector<float> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = float(i % 17);
  float *a, *b;
  CHECK(cudaMalloc(&a, n * sizeof(float)));
  CHECK(cudaMalloc(&b, n * sizeof(float)));
  CHECK(cudaMemcpy(a, in.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  smooth<<<(n + 255) / 256, 256>>>(a, b, n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(out.data(), b, n * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  for (int i = 0; i < n; ++i)
    if (out[i] != (i + 1 < n ? in[i] + in[i + 1] : in[i])) return printf("wrong at %d\n", i), 1;
  printf("right\n");
  return 0;
}
#endif
