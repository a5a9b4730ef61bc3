/* A host program in C: a product of two matrices with the standard library's kernel.
 *
 *   embed_c [DEVICE]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilec/tilec_c.h>

enum { M = 96, N = 80, K = 64 };

/* Prints and frees a status; 1 if it was an error. */
static int failed(tilec_status* status) {
  if (!status) return 0;
  fputs(tilec_status_text(status), stderr);
  tilec_status_free(status);
  return 1;
}

/* Small whole numbers are exact in bf16 and in every sum here. */
static float value(int row, int column) { return (float)((row * 3 + column * 5) % 7 - 3); }
static uint16_t to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return (uint16_t)(bits >> 16);
}
static float from_bf16(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static uint16_t a[M][K], b[N][K], c[M][N];

static int run(tilec_device* device, tilec_kernel* kernel) {
  uint64_t ad = 0, bd = 0, cd = 0;
  const int64_t a_dims[] = {M, K}, b_dims[] = {N, K}, c_dims[] = {M, N};
  tilec_args* args = tilec_args_create();
  int bad = failed(tilec_device_alloc(device, sizeof a, &ad)) ||
            failed(tilec_device_alloc(device, sizeof b, &bd)) ||
            failed(tilec_device_alloc(device, sizeof c, &cd)) ||
            failed(tilec_device_copy_in(device, ad, a, sizeof a)) ||
            failed(tilec_device_copy_in(device, bd, b, sizeof b)) ||
            failed(tilec_device_copy_in(device, cd, c, sizeof c));
  if (!bad) {
    tilec_args_tensor(args, "A", TILEC_BF16, ad, 2, a_dims, NULL);
    tilec_args_tensor(args, "B", TILEC_BF16, bd, 2, b_dims, NULL);
    tilec_args_tensor(args, "C", TILEC_BF16, cd, 2, c_dims, NULL);
    bad = failed(tilec_launch(kernel, device, args, 0)) ||
          failed(tilec_device_synchronize(device, 0)) ||
          failed(tilec_device_copy_out(device, c, cd, sizeof c));
  }
  tilec_args_free(args);
  tilec_device_release(device, ad);
  tilec_device_release(device, bd);
  tilec_device_release(device, cd);
  return bad;
}

int main(int argc, char** argv) {
  const char* const names[] = {"cache"};
  const char* const values[] = {"off"};
  tilec_device* device = NULL;
  tilec_compiler* compiler = NULL;
  tilec_kernel* kernel = NULL;
  int m, n, k, bad;
  for (m = 0; m < M; ++m)
    for (k = 0; k < K; ++k) a[m][k] = to_bf16(value(m, k));
  for (n = 0; n < N; ++n)
    for (k = 0; k < K; ++k) b[n][k] = to_bf16(value(k, n));

  bad = failed(tilec_device_open(argc > 1 ? argv[1] : "auto", &device)) ||
        failed(tilec_compiler_create(names, values, 1, &compiler)) ||
        failed(tilec_compile(compiler, "std/matmul.tile", "gemm", &kernel)) || run(device, kernel);
  for (m = 0; !bad && m < M; ++m)
    for (n = 0; !bad && n < N; ++n) {
      float sum = 0;
      for (k = 0; k < K; ++k) sum += from_bf16(a[m][k]) * from_bf16(b[n][k]);
      if (fabsf(from_bf16(c[m][n]) - sum) > 0.005f * fabsf(sum)) {
        fprintf(stderr, "C[%d][%d] is %g instead of %g\n", m, n, (double)from_bf16(c[m][n]),
                (double)sum);
        bad = 1;
      }
    }
  if (!bad) printf("gemm on %s: ok\n", tilec_device_description(device));
  tilec_kernel_free(kernel);
  tilec_compiler_free(compiler);
  tilec_device_free(device);
  return bad;
}
