"""Calls with arrays of a GPU, on a driver that does nothing and with a stand-in for torch: repeated
calls take the short way, and give what the long way gives. Prints what a call costs that was made
before, in microseconds of this machine; a call with tensors, in C, may take three times its budget of 5.

    LD_LIBRARY_PATH=…/fake_libcuda call_cost.py LIBTILEC [CALLS]

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import importlib.util
import os
import sys
import time
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import tilec  # noqa: E402

SOURCE = """kernel add(X: f32[N], Y: f32[N], Z: out f32[N]) {
  parallel n in tiles(N, 256) { Z[n] = X[n] + Y[n] }
}"""


class OnGpu:
    """Memory of the driver that does nothing, as CuPy shows its own."""

    def __init__(self, n):
        self.bytes = ctypes.create_string_buffer(4 * n + 256)
        address = (ctypes.addressof(self.bytes) + 255) // 256 * 256
        self.__cuda_array_interface__ = {"version": 3, "shape": (n,), "typestr": "<f4",
                                         "data": (address, False), "strides": None}
        self.address, self.n, self.dtype = address, n, torch.float32
        self.device = types.SimpleNamespace(type="cuda", index=0)


class Tensor(OnGpu):
    """What a call asks of a torch tensor; the real one answers in C, not in Python."""

    shape = property(lambda self: (self.n,))  # a new tuple each time, as torch

    def data_ptr(self):
        return self.address

    def stride(self):
        return (1,)

    def is_contiguous(self):
        return True


torch = types.ModuleType("torch")
torch.Tensor, torch.float32 = Tensor, object()
torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 0)


def cost(call, times=20000):
    call()
    best = 1e9
    for _ in range(5):
        begin = time.thread_time()  # stands still while others have the machine
        for _ in range(times):
            call()
        best = min(best, (time.thread_time() - begin) / times)
    return 1e6 * best


def within(budget, microseconds):
    """Three times the budget is for machines that are slower than those it was set on."""
    assert microseconds < 3 * budget, (microseconds, budget)
    return microseconds


def check(add):
    """What the short way gives is what the long way gives, and it is taken."""
    a, b, c = Tensor(1000), Tensor(1000), Tensor(1000)
    long_way = []
    resolve = add._resolve_torch

    def counted(*arguments):
        long_way.append(1)
        return resolve(*arguments)

    add._resolve_torch = counted
    torch.empty = lambda shape, dtype, device: made.append(Tensor(*shape)) or made[-1]
    made = []
    for turn, expected in ((1, 1), (2, 1)):
        assert add(a, b, Z=c) is c
        assert len(long_way) == expected, (turn, long_way)
    assert add(a, Y=b, Z=c) is c and len(long_way) == 2, "by name is another call"
    assert add(a, Y=b, Z=c) is c and len(long_way) == 2
    assert add(b, a, Z=c) is c and len(long_way) == 3, "other addresses"
    assert add(a, b) is made[0] and made[0].shape == (1000,) and len(long_way) == 4
    torch.empty = lambda shape, dtype, device: made[0]  # an allocator that gives the same again
    assert add(a, b) is made[0] and len(long_way) == 4
    try:
        add(a, Tensor(999), Z=c)
        assert False, "extents that disagree"
    except tilec.Error:
        pass
    other = Tensor(1000)
    other.dtype = object()
    try:
        add(a, other, Z=c)
        assert False, "another dtype"
    except TypeError:
        pass
    other.device = types.SimpleNamespace(type="cuda", index=1)
    try:
        add(a, other, Z=c)
        assert False, "two devices"
    except ValueError:
        pass
    add._resolve_torch = resolve


def fast_tensors(path):
    """A class as torch.Tensor is to a call: with DLPack's exchange table."""
    spec = importlib.util.spec_from_file_location("stand_in", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class FastTensor(module.Tensor):
        dtype = property(lambda self: {(2, 32): torch.float32}.get((self.code, self.bits), "other"))
        device = property(lambda self: Place(self.index))

    memory = []

    def make(n, code=2, bits=32, device=0, shift=0):
        memory.append(ctypes.create_string_buffer(4 * n + 512))
        address = (ctypes.addressof(memory[-1]) + 255) // 256 * 256 + shift
        return FastTensor(address, (n,), code, bits, device)

    return module, FastTensor, make


class Place:
    type = "cuda"

    def __init__(self, index):
        self.index = index

    def __eq__(self, other):
        return self.index == other.index


def check_fast(add, module, make):
    """What is told apart, and that the short way runs nothing of Python for what it knows."""
    fast, slow = add._fast, []
    add._torch_calls.clear()  # of the way in Python
    add._torch_results.clear()
    tell = add._tell

    def counted(args, kwargs):
        slow.append(1)
        return tell(args, kwargs)

    add._tell = counted

    def goes(short, *args, **kwargs):
        before, hits = len(slow), fast.hits()
        result = add(*args, **kwargs)
        assert (len(slow) == before) == short, (short, args, kwargs)
        assert (fast.hits() == hits + 1) == short
        return result

    a, b, c = make(1000), make(1000), make(1000)
    assert goes(False, a, b, Z=c) is c
    assert goes(True, a, b, Z=c) is c
    assert goes(True, b, a, Z=c) is c  # other addresses
    d = make(1000)
    assert goes(True, a, b, Z=d) is d
    goes(False, a, Y=b, Z=c)  # by name is another call
    goes(True, a, Y=b, Z=c)
    goes(False, make(999), make(999), Z=make(999))
    goes(True, make(999), make(999), Z=make(999))
    goes(False, make(1000, shift=4), b, Z=c)  # less aligned: another program
    goes(True, make(1000, shift=4), b, Z=c)
    made = []
    torch.empty = lambda shape, dtype, device: made.append(make(*shape)) or made[-1]
    assert goes(False, a, b) is made[0]
    assert goes(True, a, b) is made[1] and made[1].shape == (1000,)
    for wrong, arguments in ((tilec.Error, (a, make(999))), (TypeError, (a, make(1000, code=0))),
                             (ValueError, (a, make(1000, device=1))), (TypeError, (a, 3)),
                             (TypeError, (a, b, c, d)), (TypeError, (None,))):
        for _ in range(2):
            try:
                goes(False, *arguments, Z=c)
                assert False, arguments
            except wrong:
                pass
    # A launch that the driver's stand-in refuses: the stream is one that there is not.
    module.set_stream(4096)
    goes(True, a, b, Z=c)
    module.set_stream(0)
    fast.forget()
    goes(False, a, b, Z=c)
    goes(True, a, b, Z=c)
    for n in range(1, 4200):  # more kinds than are kept
        add(make(n), make(n), Z=make(n)) if n % 1000 == 0 else None
    add._tell = tell


tilec.use_library(sys.argv[1])
times = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
add = tilec.compile(SOURCE, cache=False, schedule="sequential", tune="default")
x, y, z = OnGpu(1000), OnGpu(1000), OnGpu(1000)
launch = add.bind(x, y, Z=z)
print(f"bound: {cost(launch, times):.2f} us")
print(f"arrays of __cuda_array_interface__: {cost(lambda: add(x, y, Z=z), times):.2f} us")
sys.modules["torch"] = torch
fast, add._fast = add._fast, None
check(add)
a, b, c = Tensor(1000), Tensor(1000), Tensor(1000)
print(f"torch tensors (a stand-in): {cost(lambda: add(a, b, Z=c), times):.2f} us")
add._fast = fast
if fast is None:
    print("no extension beside the library: the short way in C is not tested")
elif len(sys.argv) > 3:
    module, torch.Tensor, make = fast_tensors(sys.argv[3])
    check_fast(add, module, make)
    a, b, c = make(1000), make(1000), make(1000)
    same = within(5, cost(lambda: add(a, b, Z=c), times))
    print(f"torch tensors, in C (a stand-in): {same:.2f} us")
    at = [make(1000) for _ in range(64)]
    turn = iter(range(10**9))
    other = within(5, cost(lambda: add(at[next(turn) % 64], b, Z=c), times))
    print(f"... at other addresses each time: {other:.2f} us")
