/* A host program without a compiler: launches the product of a bundle.
 *
 *   tilec bundle std/matmul.tile:gemm -o gemm.tilec
 *   embed_bundle gemm.tilec [DEVICE]
 *
 * Links libtilec_rt, which has neither LLVM nor a solver.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
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

static uint16_t a[M][K], b[N][K], c[M][N];

static int tensor(tilec_device* device, tilec_args* args, const char* name, const void* data,
                  int64_t rows, int64_t columns, uint64_t* address) {
  const int64_t dims[] = {rows, columns};
  const uint64_t bytes = 2u * (uint64_t)rows * (uint64_t)columns;
  if (failed(tilec_device_alloc(device, bytes, address)) ||
      failed(tilec_device_copy_in(device, *address, data, bytes)))
    return 1;
  tilec_args_tensor(args, name, TILEC_BF16, *address, 2, dims, NULL);
  return 0;
}

int main(int argc, char** argv) {
  tilec_device* device = NULL;
  tilec_bundle* bundle = NULL;
  tilec_args* args = tilec_args_create();
  uint64_t ad = 0, bd = 0, cd = 0;
  int m, n, k, bad, wrong = 0;
  if (argc < 2) {
    fputs("embed_bundle BUNDLE [DEVICE]\n", stderr);
    return 2;
  }
  for (m = 0; m < M; ++m)
    for (k = 0; k < K; ++k) a[m][k] = to_bf16(value(m, k));
  for (n = 0; n < N; ++n)
    for (k = 0; k < K; ++k) b[n][k] = to_bf16(value(k, n));
  bad = failed(tilec_bundle_open(argv[1], &bundle)) ||
        failed(tilec_device_open(argc > 2 ? argv[2] : "auto", &device)) ||
        tensor(device, args, "A", a, M, K, &ad) || tensor(device, args, "B", b, N, K, &bd) ||
        tensor(device, args, "C", c, M, N, &cd) ||
        failed(tilec_bundle_launch(bundle, "gemm", device, args, 0)) ||
        failed(tilec_device_synchronize(device, 0)) ||
        failed(tilec_device_copy_out(device, c, cd, sizeof c));
  for (m = 0; !bad && m < M; ++m)
    for (n = 0; n < N; ++n) {
      float sum = 0;
      for (k = 0; k < K; ++k) sum += value(m, k) * value(k, n);
      /* Sums here are whole and below 2^8 or multiples of what bf16 keeps: compare as bf16. */
      if (c[m][n] != to_bf16(sum) && sum > -256 && sum < 256) ++wrong;
    }
  if (!bad)
    printf("%s: %zu kernel(s), %d of %d elements wrong on %s\n", argv[1],
           tilec_bundle_count(bundle), wrong, M * N, tilec_device_description(device));
  tilec_device_release(device, ad);
  tilec_device_release(device, bd);
  tilec_device_release(device, cd);
  tilec_args_free(args);
  tilec_bundle_free(bundle);
  tilec_device_free(device);
  return bad || wrong ? 1 : 0;
}
