"""PyTorch's tensors on a GPU: where kernels run, what torch.compile and autograd see of them.

    PYTHONPATH=python tests/python/torch_gpu_test.py [LIBTILEC] [unittest's arguments]

Skipped (77) without torch and a GPU; what needs a torch of 2.4 or two GPUs is skipped by itself.

SPDX-License-Identifier: Apache-2.0
"""

import sys
import unittest

try:
    import torch
except ImportError:
    torch = None
if torch is None or not torch.cuda.is_available():
    print("no torch with a GPU here")
    sys.exit(77)

import tilec
import tilec.torch

SOURCE = """
kernel mul(X: f32[N], Y: f32[N], Z: out f32[N]) {
  parallel n in tiles(N, 128) { Z[n] = X[n] * Y[n] }
}
kernel mul_backward(X: f32[N], Y: f32[N], dZ: f32[N], dX: out f32[N], dY: out f32[N]) {
  parallel n in tiles(N, 128) {
    dX[n] = dZ[n] * Y[n]
    dY[n] = dZ[n] * X[n]
  }
}
kernel half_and_twice(X: f32[N], H: out f32[N], T: out f32[N]) {
  parallel n in tiles(N, 128) {
    H[n] = 0.5 * X[n]
    T[n] = 2.0 * X[n]
  }
}
"""
MODERN = hasattr(torch.library, "custom_op")


def kernel(name):
    return tilec.compile(SOURCE, name, tune="default")


class OnGpu(unittest.TestCase):
    def test_results_lie_where_the_arguments_lie(self):
        half = kernel("half_and_twice")
        for n in (1, 1000, 4096):
            x = torch.randn(n, device="cuda")
            for _ in range(3):  # the slow way, then the short one
                h, t = half(x)
                self.assertEqual((h.device, t.device), (x.device, x.device))
                self.assertTrue(torch.equal(h, 0.5 * x) and torch.equal(t, 2 * x))

    def test_the_current_stream(self):
        mul, stream = kernel("mul"), torch.cuda.Stream()
        x, y = torch.randn(1 << 20, device="cuda"), torch.randn(1 << 20, device="cuda")
        z = torch.empty_like(x)
        mul(x, y, Z=z)
        for turn in range(4):
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)  # about 10 ms: what does not wait sees old values
                x.fill_(turn + 1.0)
                mul(x, y, Z=z)
                seen = z.clone()
            stream.synchronize()
            self.assertTrue(torch.equal(seen, (turn + 1.0) * y), turn)

    def test_every_gpu(self):
        if torch.cuda.device_count() < 2:
            self.skipTest("one GPU")
        mul = kernel("mul")
        for turn in range(3):
            for d in range(torch.cuda.device_count()):
                x = torch.full((4096,), d + 1.0, device=f"cuda:{d}")
                z = mul(x, x)
                self.assertEqual(z.device.index, d)
                self.assertTrue(z.eq((d + 1.0) ** 2).all(), (turn, d))
        with self.assertRaisesRegex(ValueError, "is on cuda:1, others on cuda:0"):
            mul(torch.ones(8, device="cuda:0"), torch.ones(8, device="cuda:1"))


@unittest.skipUnless(MODERN, "torch before 2.4 has no custom_op")
class Operators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.mul = tilec.torch.operator("tilec_gpu::mul", kernel("mul"),
                                       backward=[kernel("mul_backward")])
        cls.both = tilec.torch.operator("tilec_gpu::both", kernel("half_and_twice"))

    def test_opcheck(self):
        x, y = (torch.randn(300, device="cuda", requires_grad=True) for _ in range(2))
        torch.library.opcheck(self.mul, (x, y))
        torch.library.opcheck(self.both, (x.detach(),))

    def test_gradients_under_compile_with_lengths_that_change(self):
        mul = self.mul
        run = torch.compile(lambda x, y: (mul(x, y) + y).square().sum(), fullgraph=True,
                            dynamic=True)
        for n in (256, 300, 1024):
            x, y = (torch.randn(n, device="cuda", requires_grad=True) for _ in range(2))
            want = torch.autograd.grad((x * y + y).square().sum(), (x, y))
            got = torch.autograd.grad(run(x, y), (x, y))
            for g, w in zip(got, want):
                self.assertTrue(torch.allclose(g, w, rtol=1e-5, atol=1e-5), n)

    def test_a_captured_step(self):
        x, y = torch.ones(1000, device="cuda"), torch.full((1000,), 3.0, device="cuda")
        for _ in range(2):
            self.mul(x, y)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            z = self.mul(x, y)
        x.fill_(5)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(z.eq(15).all())


if __name__ == "__main__":
    if len(sys.argv) > 1 and ".so" in sys.argv[1]:
        tilec.use_library(sys.argv.pop(1))
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    unittest.main(verbosity=1)
