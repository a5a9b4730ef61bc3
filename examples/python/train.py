"""A training step of PyTorch with an operator whose forward and backward are kernels, under
torch.compile where torch has it (2.4 and later). On the GPU if there is one, else on the emulator.

SPDX-License-Identifier: Apache-2.0
"""

import warnings

import tilec
import tilec.torch
import torch

SOURCE = """
kernel gate(X: f32[N], Y: f32[N], Z: out f32[N]) {
  parallel n in tiles(N, 128) { Z[n] = X[n] * sigmoid(Y[n]) }
}
kernel gate_backward(X: f32[N], Y: f32[N], dZ: f32[N], dX: out f32[N], dY: out f32[N]) {
  parallel n in tiles(N, 128) {
    let s = sigmoid(Y[n])
    dX[n] = dZ[n] * s
    dY[n] = dZ[n] * X[n] * s * (1.0 - s)
  }
}
"""

where = "cuda" if torch.cuda.is_available() else "cpu"
options = {"tune": "default", "device": "auto" if where == "cuda" else "emulator"}
forward, backward = (tilec.compile(SOURCE, name, **options) for name in ("gate", "gate_backward"))
with warnings.catch_warnings():
    warnings.simplefilter("ignore" if not hasattr(torch.library, "custom_op") else "default")
    gate = tilec.torch.operator("example::gate", forward, backward=[backward])

torch.manual_seed(1)
x = torch.randn(512, device=where)
goal = 0.25 * x
weight = torch.zeros(512, device=where, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=400.0)


def step():
    loss = ((gate(x, weight) - goal) ** 2).mean()
    return loss


compiled = hasattr(torch, "compile") and hasattr(torch.library, "custom_op")
run = torch.compile(step, fullgraph=True) if compiled else step
losses = []
for _ in range(12):
    optimizer.zero_grad()
    loss = run()
    loss.backward()
    want = torch.autograd.grad(((x * torch.sigmoid(weight) - goal) ** 2).mean(), weight)[0]
    assert torch.allclose(weight.grad, want, atol=1e-5), (weight.grad - want).abs().max()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.5 * losses[0], losses
print(f"torch {torch.__version__} on {where}, {'compiled' if compiled else 'not compiled'}: "
      f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
