"""What a call from Python costs on a GPU, and that calls at other addresses and graphs whose addresses
were replaced compute what they should. Needs torch and a GPU; about 20 s.

    PYTHONPATH=python bench/python_call.py [LIBTILEC]

Prints microseconds of the host per call, the queue never full: the best of several bursts. "less
the driver's" is against a replay of the same launch by torch's own CUDA graph of one node, which is
one driver call from Python.

SPDX-License-Identifier: Apache-2.0
"""

import sys
import time

import tilec
import torch

SOURCE = """
kernel scaled(X: f32[N], Y: out f32[N], a: f32) {
  parallel n in tiles(N, 128) { Y[n] = a * X[n] }
}
kernel product(A: bf16[M, K], B: bf16[N, K], C: out bf16[M, N]) {
  parallel m in tiles(M, 128), n in tiles(N, 128) {
    var acc: f32[128, 128] = 0
    for k in tiles(K, 64) { acc += A[m, k] @ B[n, k].T }
    C[m, n] = acc as bf16
  }
}
"""


def cost(call, times=200, bursts=40):
    for _ in range(50):
        call()
    best = 1e9
    for _ in range(bursts):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, (time.perf_counter() - begin) / times)
    torch.cuda.synchronize()
    return 1e6 * best


def check_product(product):
    """At many places in turn, by the short way: against torch."""
    a = [torch.randn(256, 128, device="cuda").bfloat16() for _ in range(8)]
    b = torch.randn(128, 128, device="cuda").bfloat16()
    for turn in range(3):
        for x in a:
            got, want = product(x, b), x.float() @ b.float().T
            assert torch.allclose(got.float(), want, rtol=2e-2, atol=2e-1), (turn, got - want)
    if product._fast is not None:
        assert product._fast.hits() >= 2 * len(a), product._fast.hits()
        print(f"{product._fast.hits()} of {3 * len(a)} products took the short way")


def check_graph(scaled, product):
    x = [torch.full((1000,), float(i), device="cuda") for i in range(4)]
    y = [torch.zeros(1000, device="cuda") for _ in range(4)]
    graph = tilec.Graph(scaled.bind(x[1], Y=y[0], a=2.0), scaled.bind(y[0], Y=y[1], a=3.0))
    graph()
    torch.cuda.synchronize()
    assert y[1].eq(6).all(), y[1]
    graph.move(0, x[2].data_ptr(), y[2].data_ptr())
    graph.move(1, y[2].data_ptr(), y[3].data_ptr())
    graph()
    torch.cuda.synchronize()
    assert y[3].eq(12).all() and y[1].eq(6).all(), y[3]
    # tensor maps inside a graph
    a, b = (torch.randn(256, 128, device="cuda").bfloat16() for _ in range(2))
    w, c = torch.randn(128, 128, device="cuda").bfloat16(), torch.zeros(256, 128, device="cuda").bfloat16()
    launch = product.bind(a, w, C=c)
    graph = tilec.Graph(launch)
    for t in (a, b):
        graph.move(0, t.data_ptr(), w.data_ptr(), c.data_ptr())
        graph()
        torch.cuda.synchronize()
        assert torch.allclose(c.float(), t.float() @ w.float().T, rtol=2e-2, atol=2e-1)
    launch.at(b.data_ptr(), w.data_ptr(), c.data_ptr())
    torch.cuda.synchronize()
    assert torch.allclose(c.float(), b.float() @ w.float().T, rtol=2e-2, atol=2e-1)
    print("graphs with replaced addresses: right")
    return graph, [t.data_ptr() for t in (b, w, c)]


def check_capture(scaled):
    """A stream in capture records our launches."""
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    scaled(x, Y=y, a=5.0)
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        scaled(x, Y=y, a=5.0)
    y.zero_()
    x.fill_(2)
    recorded.replay()
    torch.cuda.synchronize()
    assert y.eq(10).all(), y
    print("captured by torch.cuda.graph: right")
    return recorded


def main():
    if len(sys.argv) > 1:
        tilec.use_library(sys.argv[1])
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "tilec", tilec.version())
    scaled = tilec.compile(SOURCE, "scaled", target="h200")
    product = tilec.compile(SOURCE, "product", target="h200")
    print("extension:", "yes" if scaled._fast is not None else "no",
          " exchange table:", hasattr(torch.Tensor, "__dlpack_c_exchange_api__"))
    check_product(product)
    graph, at = check_graph(scaled, product)
    recorded = check_capture(scaled)
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    a, w = torch.randn(256, 128, device="cuda").bfloat16(), torch.randn(128, 128, device="cuda").bfloat16()
    c = torch.zeros(256, 128, device="cuda").bfloat16()
    bare = cost(recorded.replay)
    print(f"torch's replay of one captured launch: {bare:.2f} us")
    places = [torch.ones(1000, device="cuda") for _ in range(64)]
    turn = iter(range(10**9))
    for name, call in (
            ("two tensors, result given", lambda: scaled(x, Y=y, a=2.0)),
            ("... at another address each time", lambda: scaled(places[next(turn) % 64], Y=y, a=2.0)),
            ("two tensors, result made", lambda: scaled(x, a=2.0)),
            ("product, result given", lambda: product(a, w, C=c)),
            ("product, result made", lambda: product(a, w)),
            ("bound", scaled.bind(x, Y=y, a=2.0)),
            ("graph of one product", graph),
            ("... moved before", lambda: (graph.move(0, *at), graph())),
            ("torch.empty alone", lambda: torch.empty((1000,), device="cuda"))):
        us = cost(call)
        print(f"{name}: {us:.2f} us, less the driver's {us - bare:.2f} us")


main()
