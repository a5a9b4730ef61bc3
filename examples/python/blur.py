"""A kernel on numpy arrays, on the GPU if there is one, else on the emulator.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import tilec

SOURCE = """
// each element and its neighbours, averaged; zero outside
kernel blur(X: f32[M, N], Y: out f32[M, N]) {
  parallel m in tiles(M, 8), n in tiles(N, 64) {
    let before = X[m, n.index - 1]
    let after = X[m, n.index + 1]
    Y[m, n] = (before + X[m, n] + after) / 3.0
  }
}
"""

blur = tilec.compile(SOURCE, tune="default")
x = np.random.default_rng(1).standard_normal((20, 100)).astype(np.float32)
y = blur(x)  # outside of an array are zeros
padded = np.pad(x, ((0, 0), (1, 1)))
np.testing.assert_allclose(y, (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3, atol=1e-6)
print(f"blurred {x.shape} as numpy does, on {tilec.device().target}")
