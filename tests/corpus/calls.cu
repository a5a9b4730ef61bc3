// Functions that are not inlined, and what the device runtime offers.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#define KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(128) name(float* a, float* b, float* c, int n)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)

__noinline__ __device__ float Square(float x) { return x * x + 1; }
KERNEL(call_plain) { c[ME] = Square(a[ME]) + Square(b[ME]); }

__noinline__ __device__ int Fib(int k) { return k < 2 ? k : Fib(k - 1) + Fib(k - 2); }
KERNEL(call_recursive) { c[ME] = Fib(ME % 9); }

struct Pair { float x, y; int k[3]; };
__noinline__ __device__ Pair Swap(Pair p) { return {p.y, p.x, {p.k[2], p.k[1], p.k[0]}}; }
KERNEL(call_structs) {
  Pair p = Swap({a[ME], b[ME], {1, 2, n}});
  c[ME] = p.x - p.y + p.k[0] - p.k[2];
}
__noinline__ __device__ void Fill(float* to, int m) { for (int k = 0; k < m; ++k) to[k] = k * 2; }
KERNEL(call_local) {
  float own[16];
  Fill(own, ME % 17);
  c[ME] = ME % 17 > 3 ? own[ME % 17 - 1] + own[1] : 0;
}
__noinline__ __device__ float Double(float x) { return 2 * x; }
__noinline__ __device__ float Negate(float x) { return -x; }
__noinline__ __device__ float Half(float x) { return x / 2; }
__device__ float (*const kFunctions[3])(float) = {Double, Negate, Half};
KERNEL(call_pointer) { c[ME] = kFunctions[ME % 3](a[ME]); }

struct Shape { __device__ virtual float Area() const = 0; };
struct Disc : Shape { float r; __device__ Disc(float x) : r(x) {} __device__ float Area() const override { return 3.14f * r * r; } };
struct Box : Shape { float s; __device__ Box(float x) : s(x) {} __device__ float Area() const override { return s * s; } };
KERNEL(call_virtual) {
  Disc d(a[ME]);
  Box x(b[ME]);
  const Shape* s = ME % 2 ? static_cast<const Shape*>(&d) : &x;
  c[ME] = s->Area();
}
KERNEL(uses_printf) {
  if (ME == 3) printf("thread %d of %d: %f %s\n", static_cast<int>(ME), n, 1.5, "text");
  c[ME] = a[ME];
}
KERNEL(uses_assert) {
  assert(n == 512);
  c[ME] = a[ME];
}
KERNEL(uses_malloc) {
  float* p = static_cast<float*>(malloc(32 * sizeof(float)));
  if (p == nullptr) return;
  for (int k = 0; k < 32; ++k) p[k] = a[ME] + k;
  c[ME] = p[ME % 32];
  free(p);
}
KERNEL(uses_new) {
  Shape* s = ME % 2 ? static_cast<Shape*>(new Disc(a[ME])) : new Box(b[ME]);
  c[ME] = s->Area();
  delete s;
}
__noinline__ __device__ float SumShared(const float* s) {
  float x = 0;
  for (int k = 0; k < 32; ++k) x += s[k];
  return x;
}
KERNEL(call_shared) {
  __shared__ float s[128];
  s[threadIdx.x] = a[ME];
  __syncthreads();
  c[ME] = SumShared(s + threadIdx.x / 32 * 32);
}
__noinline__ __device__ void Meet() { __syncthreads(); }
KERNEL(call_barrier) {
  __shared__ float s[128];
  s[threadIdx.x] = a[ME];
  Meet();
  c[ME] = s[threadIdx.x ^ 64];
}
__noinline__ __device__ int Odd(int k);
__noinline__ __device__ int Even(int k) { return k == 0 ? 1 : Odd(k - 1); }
__noinline__ __device__ int Odd(int k) { return k == 0 ? 0 : Even(k - 1); }
KERNEL(call_mutual) { c[ME] = Even(ME % 7); }
__noinline__ __device__ double Wide(double x, long long k, char t, short s) { return x + k + t + s; }
KERNEL(call_types) { c[ME] = Wide(a[ME], n, 3, -7); }
struct Node { Node* left; Node* right; float v; };
__noinline__ __device__ float Walk(const Node* t) { return t == nullptr ? 0 : t->v + Walk(t->left) - Walk(t->right); }
KERNEL(call_tree) {
  Node d{nullptr, nullptr, a[ME]}, e{nullptr, nullptr, b[ME]}, f{&d, &e, 1}, g{&f, ME % 2 ? &d : nullptr, 2};
  c[ME] = Walk(&g);
}
