"""The Python package on the emulator: by the standard library alone; with numpy and torch where they
are (a line says which were not).

    tilec_test.py LIBTILEC [unittest's arguments]

SPDX-License-Identifier: Apache-2.0
"""

import array
import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import tilec  # noqa: E402
from tilec import _arrays  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

SOURCE = """
kernel axpy(X: f32[M, N], Y: inout f32[M, N], a: f32 = 2.0) {
  tune BM = 8
  tune BN = 32
  parallel m in tiles(M, BM), n in tiles(N, BN) {
    Y[m, n] = a * X[m, n] + Y[m, n]
  }
}

kernel mul(X: f32[N], Y: f32[N], Z: out f32[N]) {
  tune BN = 128
  parallel n in tiles(N, BN) {
    Z[n] = X[n] * Y[n]
  }
}

kernel mul_backward(X: f32[N], Y: f32[N], dZ: f32[N], dX: out f32[N], dY: out f32[N]) {
  tune BN = 128
  parallel n in tiles(N, BN) {
    dX[n] = dZ[n] * Y[n]
    dY[n] = dZ[n] * X[n]
  }
}

kernel rows(X: f32[M, K], Y: out f32[M]) {
  tune BM = 64
  tune BK = 32
  parallel m in tiles(M, BM) {
    var total: f32[BM] = 0
    for k in tiles(K, BK) {
      total += sum(X[m, k], axis = 1)
    }
    Y[m] = total
  }
}

kernel negate(X: bf16[N], Y: out bf16[N]) {
  tune BN = 128
  parallel n in tiles(N, BN) {
    Y[n] = (-(X[n] as f32)) as bf16
  }
}
"""


def kernel(name, **options):
    return tilec.compile(SOURCE, name, device="emulator", cache=False, tune="default",
                         schedule="sequential", **options)


class Emulated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.axpy, cls.mul = kernel("axpy"), kernel("mul")
        cls.negate = kernel("negate")

    def test_results_are_made_and_inouts_are_written(self):
        x, y = tilec.array([1, 2, 3]), tilec.array([4, 5, 6])
        z = self.mul(x, y)
        self.assertEqual((z.dtype, z.shape, z.tolist()), ("f32", (3,), [4.0, 10.0, 18.0]))
        y2 = tilec.array([[1, 1], [2, 2]])
        self.assertIsNone(self.axpy(tilec.array([[1, 2], [3, 4]]), y2))
        self.assertEqual(y2.tolist(), [[3, 5], [8, 10]])  # the default of `a`
        self.axpy(X=tilec.array([[1, 2], [3, 4]]), Y=y2, a=-1.0)
        self.assertEqual(y2.tolist(), [[2, 3], [5, 6]])

    def test_tunes_that_cannot_be_measured_are_said(self):
        mul = tilec.compile(SOURCE, "mul", device="emulator", cache=False, tune="measure")
        with self.assertWarns(tilec.KernelWarning) as said:
            self.assertEqual(mul(tilec.array([1, 2]), tilec.array([3, 4])).tolist(), [3.0, 8.0])
        self.assertIn("R630", str(said.warning))
        self.assertIn("the emulator has no clock of its own", str(said.warning))

    def test_a_result_may_be_given(self):
        z = tilec.zeros((3,))
        self.assertIs(self.mul(tilec.array([1, 2, 3]), tilec.array([1, 2, 3]), Z=z), z)
        self.assertEqual(z.tolist(), [1, 4, 9])

    def test_buffers(self):
        x, y = array.array("f", [1, 2, 3, 4]), array.array("f", [2, 2, 2, 2])
        self.assertEqual(self.mul(x, memoryview(y).toreadonly()).tolist(), [2, 4, 6, 8])
        self.assertEqual(self.mul(memoryview(x)[::2], y[:2]).tolist(), [2, 6])
        with self.assertRaisesRegex(TypeError, "`X` of mul is a tensor of f32, the array has f64"):
            self.mul(array.array("d", [1.0]), array.array("d", [1.0]))
        with self.assertRaisesRegex(TypeError, "`X` is a int"):
            self.mul(3, y)
        with self.assertRaisesRegex(ValueError, "`Z` is written by mul"):
            self.mul(x, y, Z=memoryview(y).toreadonly())

    def test_dlpack(self):
        x = FakeDlpack([3.0, 4.0])
        self.assertEqual(self.mul(x, x).tolist(), [9, 16])
        self.assertEqual(x.freed, 0)
        x.device = (8, 0)
        with self.assertRaisesRegex(TypeError, "device kind 8"):
            self.mul(x, x)

    def test_words_stand_for_bf16(self):
        self.assertEqual(self.negate(tilec.array([1.5, -3], "bf16")).tolist(), [-1.5, 3])
        words = self.negate(array.array("H", [0x3FC0, 0xC040]))
        self.assertEqual(words.tolist(), [-1.5, 3])

    def test_what_a_caller_gets_wrong(self):
        x = tilec.array([1, 2, 3])
        with self.assertRaisesRegex(TypeError, "takes 2 positional arguments"):
            self.mul(x, x, x)
        with self.assertRaisesRegex(TypeError, "got `X` twice"):
            self.mul(x, X=x)
        with self.assertRaisesRegex(TypeError, "has no parameter `Q`"):
            self.mul(x, x, Q=1)
        with self.assertRaisesRegex(ValueError, "`X` of mul has 1 dims"):
            self.mul(tilec.zeros((2, 2)), x)
        with self.assertRaisesRegex(TypeError, r"of result `Z` of mul needs N: give N=NUMBER"):
            self.mul()
        with self.assertRaises(tilec.Error) as caught:  # by the runtime, with its numbers
            self.mul(x, tilec.array([1, 2]))
        self.assertIn("N", str(caught.exception))
        self.assertTrue(caught.exception.codes[0].startswith("R5"))

    def test_a_bundle(self):
        command = tilec.library().command()
        if command is None:
            self.skipTest("no tilec beside the library")
        with tempfile.TemporaryDirectory() as folder:
            source, file = os.path.join(folder, "k.tile"), os.path.join(folder, "k.tilec")
            with open(source, "w", encoding="utf-8") as f:
                f.write(SOURCE)
            subprocess.run([command, "bundle", "--no-cache", "--ptxas=off", "--schedule=sequential",
                            source + ":axpy", source + ":mul", "-o", file], check=True,
                           capture_output=True)
            bundle = tilec.bundle(file, device="emulator")
            self.assertEqual(bundle.kernels, ["axpy", "mul"])
            mul = bundle["mul"]
            self.assertIs(bundle["mul"], mul)
            self.assertEqual([p.name for p in mul.parameters][:3], ["X", "Y", "Z"])
            self.assertEqual(mul(tilec.array([1, 2, 3]), tilec.array([4, 5, 6])).tolist(), [4, 10, 18])
            y = tilec.array([[1, 1], [2, 2]])
            self.assertIsNone(bundle["axpy"](tilec.array([[1, 2], [3, 4]]), y, a=2.0))
            self.assertEqual(y.tolist(), [[3, 5], [8, 10]])
            with self.assertRaisesRegex(KeyError, "the bundle has axpy, mul, not `gemm`"):
                bundle["gemm"]
            with self.assertRaisesRegex(TypeError, "no source to emit"):
                mul.emit("ptx", N=4)
            with self.assertRaises(tilec.Error) as caught:
                mul(tilec.array([1, 2, 3]), tilec.array([4, 5]))
            self.assertTrue(caught.exception.codes[0].startswith("R5"))
            del bundle  # its kernels keep it
            self.assertEqual(mul(tilec.array([2]), tilec.array([3])).tolist(), [6])
            with self.assertRaises(tilec.Error) as caught:
                tilec.bundle(source)
            self.assertEqual(caught.exception.codes, ["R553"])

    def test_diagnostics_are_exceptions(self):
        with self.assertRaises(tilec.Error) as caught:
            tilec.compile("kernel k(X: f32[N]) {\n  let = 3\n}\n", file="bad.tile")
        problem = caught.exception.problems[0]
        self.assertEqual((problem.kind, problem.file, problem.line), ("error", "bad.tile", 2))
        self.assertIn("^", str(caught.exception))
        with self.assertRaises(tilec.Error) as caught:
            tilec.Compiler(target="h2000")
        self.assertEqual(caught.exception.codes, ["I261"])
        with self.assertRaises(tilec.Error):
            tilec.load("std/matmul.tile", cache=False)["gem"]

    def test_warnings(self):
        text = SOURCE.replace("Z[n] = X[n] * Y[n]", "Z[n] = X[n]")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            tilec.compile(text, "mul", cache=False)
        # A compilation through the library finds what `tilec test` finds, or says nothing: no error.
        for w in seen:
            self.assertIs(w.category, tilec.KernelWarning)

    def test_looking(self):
        names = [p.name for p in self.axpy.parameters]
        self.assertEqual(names, ["X", "Y", "a", "M", "N", "BM", "BN"])
        self.assertEqual(repr(self.axpy.parameters[1]), "Y: inout f32[M, N]")
        self.assertIn(".entry", self.mul.emit("ptx", N=100))
        self.assertIn("<pre>", self.mul.emit("tile-ir", N=100)._repr_html_())
        with self.assertRaisesRegex(TypeError, "needs N"):
            self.mul.emit("ptx")
        with self.assertRaises(tilec.Error):
            self.mul.emit("sass", N=100)
        self.assertEqual(self.mul.warmup("emulator", N=range(64, 192, 64)), 2)

    def test_explain(self):
        # By the command beside the library; without it, the plan.
        said = kernel("rows").explain(M=256, K=256)
        self.assertIn("rows", said)
        with self.assertRaisesRegex(tilec.Error, "X803"):  # there is no loop in it
            self.mul.explain(N=256)

    @unittest.skipIf(numpy is None, "numpy is not here")
    def test_numpy(self):
        rng = numpy.random.default_rng(7)
        x = rng.standard_normal((33, 50)).astype(numpy.float32)
        y = rng.standard_normal((33, 50)).astype(numpy.float32)
        want = 2 * x + y
        self.axpy(x, y)
        numpy.testing.assert_allclose(y, want, rtol=1e-6)
        z = self.mul(x[0], x[1])
        self.assertIsInstance(z, numpy.ndarray)
        numpy.testing.assert_array_equal(z, x[0] * x[1])
        column = self.mul(x[:, 3], x.T[5])  # strided
        numpy.testing.assert_array_equal(column, x[:, 3] * x[:, 5])
        with self.assertRaisesRegex(ValueError, "negative strides"):
            self.mul(x[0][::-1], x[0])
        self.assertEqual(numpy.asarray(tilec.array([[1, 2]])).tolist(), [[1, 2]])

    @unittest.skipIf(torch is None, "torch is not here")
    def test_torch(self):
        x, y = torch.arange(6.0), torch.full((6,), 2.0)
        z = self.mul(x, y)
        self.assertIsInstance(z, torch.Tensor)
        self.assertTrue(torch.equal(z, x * y))
        half = self.negate(torch.tensor([1.5, -3]).bfloat16())
        self.assertTrue(torch.equal(half, torch.tensor([-1.5, 3]).bfloat16()))
        self.assertTrue(torch.equal(self.mul(torch.arange(12.0)[::2], y), torch.arange(12.0)[::2] * y))
        with self.assertRaisesRegex(TypeError, "f32, the array has f64"):
            self.mul(x.double(), y.double())

    @unittest.skipIf(torch is None, "torch is not here")
    def test_torch_operator(self):
        import tilec.torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an old torch
            mul = tilec.torch.operator("tilec_test::mul", self.mul, backward=kernel("mul_backward"))
        x = torch.arange(6.0).requires_grad_()
        y = torch.full((6,), 3.0).requires_grad_()
        (mul(x, y) * 2).sum().backward()
        self.assertTrue(torch.equal(x.grad, torch.full((6,), 6.0)))
        self.assertTrue(torch.equal(y.grad, 2 * torch.arange(6.0)))
        with self.assertRaisesRegex(TypeError, "is inout"):
            tilec.torch.operator("tilec_test::axpy", self.axpy)
        with self.assertRaisesRegex(TypeError, "neither a tensor of negate nor a gradient"):
            tilec.torch.operator("tilec_test::negate", self.negate, backward=kernel("mul_backward"))
        if hasattr(torch.library, "custom_op"):
            torch.library.opcheck(mul, (x, y))
            compiled = torch.compile(lambda a, b: (mul(a, b) * 2).sum(), fullgraph=True,
                                     backend="aot_eager")
            x.grad = y.grad = None
            compiled(x, y).backward()
            self.assertTrue(torch.equal(x.grad, torch.full((6,), 6.0)))

    @unittest.skipIf(torch is None, "torch is not here")
    def test_what_custom_op_is_given(self):
        """By a stand-in for torch.library.custom_op: what an old torch lets be seen of the new way."""
        import types
        from unittest import mock

        import tilec.torch

        class Op:
            def __init__(self, name, run, mutates_args, schema):
                self.name, self.run, self.schema = name, run, schema
                ops.append(self)

            def register_fake(self, fake):
                self.fake = fake

            def register_autograd(self, gradient, setup_context):
                self.gradient, self.setup = gradient, setup_context

            def __call__(self, *args):
                return self.run(*args)

        ops = []
        with mock.patch.object(torch.library, "custom_op", Op, create=True):
            tilec.torch.operator("t::mul", self.mul, backward=kernel("mul_backward"))
            tilec.torch.operator("t::rows", kernel("rows"))
        schemas = {op.name: op.schema for op in ops}
        self.assertEqual(schemas, {"t::mul": "(Tensor X, Tensor Y) -> Tensor",
                                   "t::mul_backward0":
                                   "(Tensor X, Tensor Y, Tensor dZ) -> (Tensor, Tensor)",
                                   "t::rows": "(Tensor X) -> Tensor"})
        by_name = {op.name: op for op in ops}
        self.assertEqual(by_name["t::rows"].fake(torch.empty(5, 9)).shape, (5,))
        mul, x, y = by_name["t::mul"], torch.arange(4.0), torch.full((4,), 3.0)
        context = types.SimpleNamespace()
        context.save_for_backward = lambda *tensors: setattr(context, "saved_tensors", tensors)
        mul.setup(context, (x, y), mul(x, y))
        dx, dy = mul.gradient(context, torch.ones(4))
        self.assertTrue(torch.equal(dx, y) and torch.equal(dy, x))


class SmallFloats(unittest.TestCase):
    def test_every_word_survives(self):
        for dtype, words, nans in (("e4m3", 256, 2), ("e5m2", 256, 6), ("bf16", 65536, 254)):
            seen = 0
            for word in range(0, words, 1 if words == 256 else 7):
                value = _arrays._decode(dtype, word)
                if value != value:
                    seen += 1
                elif abs(value) != float("inf"):
                    again = _arrays._encode(dtype, value)
                    self.assertEqual(again, word, (dtype, word, value))
            self.assertTrue(words != 256 or seen == nans, (dtype, seen))

    def test_ties_to_even_and_the_ends(self):
        self.assertEqual(_arrays._encode("bf16", 1 + 2 ** -8), 0x3F80)
        self.assertEqual(_arrays._encode("bf16", 1 + 3 * 2 ** -8), 0x3F82)
        self.assertEqual(_arrays._decode("e4m3", _arrays._encode("e4m3", 1e9)), 448)
        self.assertEqual(_arrays._decode("e5m2", _arrays._encode("e5m2", -1e9)), -57344)

    def test_arrays(self):
        self.assertEqual(tilec.array([[1, 2], [3, 4]], "i8").tobytes(), bytes([1, 2, 3, 4]))
        self.assertEqual(tilec.array(2.5).tolist(), 2.5)
        for bad in ([[1], [2, 3]], [1, [2]], [[1], 2]):
            with self.assertRaises(ValueError):
                tilec.array(bad)
        with self.assertRaises(TypeError):
            tilec.zeros((1,), "f31")


class FakeDlpack:
    """A producer of DLPack: a dense array of f32 on the host."""

    def __init__(self, values):
        self.n, self.device, self.freed = len(values), (1, 0), 0
        self.data = (ctypes.c_float * self.n)(*values)
        self.shape = (ctypes.c_int64 * 1)(self.n)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        self.tensor = _arrays._DLTensor(ctypes.addressof(self.data), self.device[0], 0, 1, 2, 32, 1,
                                        self.shape, None, 0)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), _arrays._DLTENSOR, None)


if __name__ == "__main__":
    tilec.use_library(sys.argv.pop(1))
    print("numpy:", numpy.__version__ if numpy else "not here",
          "torch:", torch.__version__ if torch else "not here")
    unittest.main()
