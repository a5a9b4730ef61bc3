/* Kernels that were built and linked in by tilec_add_kernels: no file to find, no compiler.
 *
 *   scale [DEVICE]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "kernels.h"

enum { N = 50, W = 64 };

/* Prints and frees a status; 1 if it was an error. */
static int failed(tilec_status* status) {
  if (!status) return 0;
  fputs(tilec_status_text(status), stderr);
  tilec_status_free(status);
  return 1;
}

static float x[N][W], f[N], y[N][W];

int main(int argc, char** argv) {
  tilec_device* device = NULL;
  tilec_bundle* bundle = NULL;
  uint64_t xd = 0, fd = 0, yd = 0;
  int n, w, bad, wrong = 0;
  for (n = 0; n < N; ++n)
    for (f[n] = (float)n, w = 0; w < W; ++w) x[n][w] = (float)(n - w);
  bad = failed(kernels_open(&bundle)) ||
        failed(tilec_device_open(argc > 1 ? argv[1] : "auto", &device)) ||
        failed(tilec_device_alloc(device, sizeof x, &xd)) ||
        failed(tilec_device_alloc(device, sizeof f, &fd)) ||
        failed(tilec_device_alloc(device, sizeof y, &yd)) ||
        failed(tilec_device_copy_in(device, xd, x, sizeof x)) ||
        failed(tilec_device_copy_in(device, fd, f, sizeof f)) ||
        failed(scale_rows_launch(bundle, device, 0, N, W, xd, fd, 0.5, yd)) ||
        failed(tilec_device_copy_out(device, y, yd, sizeof y));
  for (n = 0; !bad && n < N; ++n)
    for (w = 0; w < W; ++w) wrong += y[n][w] != x[n][w] * f[n] + 0.5f;
  if (!bad) {
    /* A width that was not built is refused, with what there is. */
    tilec_status* refused = scale_rows_launch(bundle, device, 0, N, 96, xd, fd, 0.5, yd);
    if (!refused) ++wrong;
    tilec_status_free(refused);
    printf("%d of %d elements wrong on %s\n", wrong, N * W, tilec_device_description(device));
  }
  tilec_device_release(device, xd);
  tilec_device_release(device, fd);
  tilec_device_release(device, yd);
  tilec_bundle_free(bundle);
  tilec_device_free(device);
  return bad || wrong;
}
