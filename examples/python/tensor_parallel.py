"""A transformer block on several GPUs, summed by the host's NCCL.

    torchrun --nproc-per-node=N tensor_parallel.py      one process per GPU
    python3 tensor_parallel.py                          one process for all GPUs
    python3 tensor_parallel.py --rehearse               two shares on the emulator, summed by torch

Each GPU has its share of the heads and of the MLP. Two products of the block, behind attention and
at the MLP's end, then give a part of each sum; NCCL adds the parts. Both are cut along the tokens
(`--pieces=2,4`): the sum of one piece runs on a stream of its own while others are computed.

Printed: the error against torch in f32, beside that of torch's own block in bf16; microseconds of
a step with sums behind the products and under them; what a trace says ran at the same time.
NCCL_MAX_CTAS=8 leaves the products more of the GPU. Without two GPUs it rehearses.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import json
import os
import statistics
import tempfile
import types
import warnings

import tilec
import torch

Size = collections.namedtuple("Size", "tokens width heads hidden")
WHOLE = Size(tokens=8192, width=4096, heads=32, hidden=12288)
SMALL = Size(tokens=64, width=256, heads=4, hidden=256)  # for the emulator
EPS = 1e-5

ADD = """
kernel add(X: bf16[N], Y: bf16[N], Z: out bf16[N]) {
  tune BN = 1024
  parallel n in tiles(N, BN) { Z[n] = ((X[n] as f32) + (Y[n] as f32)) as bf16 }
}
"""

# Outputs, inputs and the dim along which GPUs share them. A share of outputs is whole where it goes
# on; a share of inputs makes a part of each sum.
WEIGHTS = {"q": ("width", "width", 0), "k": ("width", "width", 0), "v": ("width", "width", 0),
           "out": ("width", "width", 1), "gate": ("hidden", "width", 0),
           "up": ("hidden", "width", 0), "down": ("width", "hidden", 1)}
# What is cut along the tokens.
CUT = ("x", "o", "first", "middle", "normed", "gate", "up", "h", "second", "y")


class Kernels:
    def __init__(self, **options):
        def load(file, name):
            return tilec.load(f"std/{file}.tile", **options)[name]

        self.gemm = load("matmul", "gemm")  # A [tokens, inputs] by B [outputs, inputs]
        self.norm = load("norm", "rmsnorm")
        self.attention = load("attention", "attention")
        self.silu_mul = load("elementwise", "silu_mul")
        self.add = tilec.compile(ADD, **options)


class Share:
    """What one GPU of `ranks` holds, and its part of a step. Every share has the same input."""

    def __init__(self, rank, ranks, device, size, kernels):
        self.device, self.size, self.kernels = torch.device(device), size, kernels
        if size.heads % ranks or size.hidden % ranks:
            raise SystemExit(f"{size.heads} heads and {size.hidden} columns do not go by {ranks}")
        self.weights = {}
        for seed, (name, (rows, columns, cut)) in enumerate(WEIGHTS.items()):
            w = self._random(seed, getattr(size, rows), getattr(size, columns))
            w /= w.shape[1] ** 0.5
            self.weights[name] = w.chunk(ranks, cut)[rank].contiguous().bfloat16()
        self.gamma = torch.ones(size.width, device=device)
        self.x = self._random(99, size.tokens, size.width).bfloat16()
        self.head = size.width // size.heads
        self.cuts = {}
        wide = (size.tokens, size.width)
        mine = (size.tokens, size.width // ranks)
        hidden = (size.tokens, size.hidden // ranks)
        for name, shape in (("normed", wide), ("q", mine), ("k", mine), ("v", mine), ("o", mine),
                            ("first", wide), ("middle", wide), ("gate", hidden), ("up", hidden),
                            ("h", hidden), ("second", wide), ("y", wide)):
            setattr(self, name, torch.empty(shape, dtype=torch.bfloat16, device=device))

    def _random(self, seed, rows, columns):
        random = torch.Generator(self.device).manual_seed(seed)
        return torch.randn(rows, columns, generator=random, device=self.device)

    def forget(self):
        """So that nothing of a step before passes for this one's."""
        for t in (self.normed, self.o, self.first, self.middle, self.h, self.second, self.y):
            t.fill_(float("nan"))

    def _heads(self, t):  # [1, heads, tokens, head] of rows of heads * head
        return t.view(1, t.shape[0], -1, self.head).transpose(1, 2)

    def attend(self):
        k, w = self.kernels, self.weights
        k.norm(self.x, self.gamma, eps=EPS, Y=self.normed)
        for name in ("q", "k", "v"):
            k.gemm(self.normed, w[name], C=getattr(self, name))
        heads, o = [self._heads(t) for t in (self.q, self.k, self.v)], self._heads(self.o)
        values = {"scale": self.head ** -0.5, "causal": True}
        if self.device.type == "cuda":
            k.attention(*heads, O=o, **values)
        else:  # the emulator's results are dense
            o.copy_(k.attention(*heads, **values))

    def cut(self, pieces):
        """Views of as many pieces along the tokens; `_flat` ones have one dim."""
        if pieces not in self.cuts:
            rows = -(-self.size.tokens // pieces)
            self.cuts[pieces] = made = []
            for i in range(pieces):
                views = {name: getattr(self, name)[i * rows:(i + 1) * rows] for name in CUT}
                views.update({f"{name}_flat": t.view(-1) for name, t in views.items()})
                made.append(types.SimpleNamespace(**views))
        return self.cuts[pieces]

    def project(self, p):  # a part of the sums: first
        self.kernels.gemm(p.o, self.weights["out"], C=p.first)

    def mlp(self, p):  # of what was summed; a part of the sums: second
        k, w = self.kernels, self.weights
        k.add(p.x_flat, p.first_flat, Z=p.middle_flat)
        k.norm(p.middle, self.gamma, eps=EPS, Y=p.normed)
        k.gemm(p.normed, w["gate"], C=p.gate)
        k.gemm(p.normed, w["up"], C=p.up)
        k.silu_mul(p.gate_flat, p.up_flat, Z=p.h_flat)
        k.gemm(p.h, w["down"], C=p.second)

    def finish(self, p):
        self.kernels.add(p.middle_flat, p.second_flat, Z=p.y_flat)


def step(shares, pieces, reduce):
    """One step of the shares of this process. `reduce` begins the sum of a tensor of each share,
    and gives what makes the GPUs wait for it."""
    cut = list(zip(*(s.cut(pieces) for s in shares)))  # of each piece, one of each share
    for s in shares:
        s.attend()
    first = []
    for piece in cut:
        for s, p in zip(shares, piece):
            s.project(p)
        first.append(reduce([p.first for p in piece]))
    second = []
    for piece, wait in zip(cut, first):
        wait()
        for s, p in zip(shares, piece):
            s.mlp(p)
        second.append(reduce([p.second for p in piece]))
    for piece, wait in zip(cut, second):
        wait()
        for s, p in zip(shares, piece):
            s.finish(p)


# ---- Who sums -----------------------------------------------------------------------------------


class Processes:
    """One process per GPU: torch.distributed, whose NCCL has a stream of its own."""

    def __init__(self):
        import torch.distributed as dist

        here = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(here)
        # Its blocks go first where both have some to start: else sums wait for the products' last.
        first = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
        dist.init_process_group("nccl", pg_options=first, device_id=here)
        self.dist, self.ranks = dist, dist.get_world_size()
        self.mine, self.devices = [dist.get_rank()], [here]
        self.how = f"{self.ranks} processes"

    def reduce(self, tensors):
        return self.dist.all_reduce(tensors[0], async_op=True).wait  # of the GPU, not the thread

    def together(self):
        torch.cuda.synchronize()
        self.dist.barrier()
        torch.cuda.synchronize()

    def close(self):
        self.dist.destroy_process_group()


class OneProcess:
    """All GPUs by one thread: a call of NCCL begins the sum on each."""

    def __init__(self):
        self.ranks = torch.cuda.device_count()
        self.mine = list(range(self.ranks))
        self.devices = [torch.device("cuda", r) for r in self.mine]
        self.streams = [torch.cuda.Stream(d, priority=-1) for d in self.devices]
        self.how = f"one process for {self.ranks} GPUs"

    def reduce(self, tensors):
        for d, stream in zip(self.devices, self.streams):
            stream.wait_stream(torch.cuda.current_stream(d))
        torch.cuda.nccl.all_reduce(tensors, streams=self.streams)
        done = [stream.record_event() for stream in self.streams]

        def wait():
            for d, event in zip(self.devices, done):
                torch.cuda.current_stream(d).wait_event(event)

        return wait

    def together(self):
        for d in self.devices:
            torch.cuda.synchronize(d)

    def close(self):
        pass


class Rehearsal:
    """Two shares on the emulator: the arithmetic of the cut, no GPU and no time."""

    ranks, mine, devices, how = 2, [0, 1], ["cpu", "cpu"], "a rehearsal on the emulator"

    @staticmethod
    def reduce(tensors):
        total = sum(t.float() for t in tensors).bfloat16()
        for t in tensors:
            t.copy_(total)
        return lambda: None

    def together(self):
        pass

    def close(self):
        pass


# ---- What is right, and how long it takes -------------------------------------------------------


def plainly(share, dtype):
    """The whole block as torch computes it; `share` is of one."""
    w = {name: t.to(dtype) for name, t in share.weights.items()}
    x = share.x.to(dtype)

    def norm(t):
        f = t.float()
        return (f * torch.rsqrt((f * f).mean(1, keepdim=True) + EPS)).to(dtype)

    def heads(t):
        return t.view(1, t.shape[0], -1, share.head).transpose(1, 2)

    n = norm(x)
    q, k, v = (heads(n @ w[name].T) for name in "qkv")
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        late = torch.ones(x.shape[0], x.shape[0]).triu(1).bool()
        scores = (q @ k.transpose(2, 3)).float() * share.head ** -0.5
        o = scores.masked_fill(late, float("-inf")).softmax(3).to(dtype) @ v
    middle = x + o.transpose(1, 2).reshape(x.shape) @ w["out"].T
    n = norm(middle)
    h = torch.nn.functional.silu(n @ w["gate"].T) * (n @ w["up"].T)
    return (middle + h @ w["down"].T).float()


def references(group, size):
    """torch's block in f32, and the error of its block in bf16."""
    whole = Share(0, 1, group.devices[0], size, None)
    want = plainly(whole, torch.float32)
    return want, error_of(plainly(whole, torch.bfloat16), want)


def error_of(got, want):
    return ((got.float() - want).norm() / want.norm()).item()


def check(group, shares, pieces, want, usual):
    """The worst error of this process's shares; nothing computed before can hide a race."""
    for s in shares:
        s.forget()
    group.together()
    step(shares, pieces, group.reduce)
    group.together()
    worst = max(error_of(s.y, want.to(s.device)) for s in shares)
    assert worst < 2 * usual, f"{pieces} pieces: error {worst}, torch in bf16 {usual}"
    return worst


def microseconds(group, call, times=10, rounds=7):
    """Of one call, by events on every GPU of this process; the median round."""
    for _ in range(3):
        call()
    each = []
    for _ in range(rounds):
        group.together()
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in group.devices]
        for d, (begin, _) in zip(group.devices, events):
            begin.record(torch.cuda.current_stream(d))
        for _ in range(times):
            call()
        for d, (_, end) in zip(group.devices, events):
            end.record(torch.cuda.current_stream(d))
        group.together()
        each.append(max(1000 * begin.elapsed_time(end) / times for begin, end in events))
    return statistics.median(each)


def at_once(reduce):
    """The same sums, each waited for before anything else runs."""

    def wait(tensors):
        reduce(tensors)()
        return lambda: None

    return wait


def both(a, b):
    """How long two lists of (begin, end) are there together; none overlaps itself."""
    return sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)


def union(spans):
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def trace(group, call, times=3):
    """(microseconds of sums in a step, of them beside products, beside any kernel), by the GPU's
    own record of when kernels ran; of this process's first GPU."""
    from torch.profiler import ProfilerActivity, profile

    group.together()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as record:
            for _ in range(times + 1):
                call()
            for d in group.devices:  # no barrier: it would be one more sum
                torch.cuda.synchronize(d)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        record.export_chrome_trace(path)
        with open(path, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
    here = group.devices[0].index
    kernels = sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in events
                     if e.get("cat") == "kernel" and e["args"]["device"] == here)
    # Without the first step, whose first sum waits until every process traces.
    kernels = [(name, (begin, end)) for begin, end, name in kernels[len(kernels) // (times + 1):]]
    sums = union(span for name, span in kernels if "nccl" in name.lower())
    products = union(span for name, span in kernels if name.startswith("tile_gemm"))
    others = union(span for name, span in kernels if "nccl" not in name.lower())
    return [t / times for t in (both(sums, sums), both(sums, products), both(sums, others))]


def measure(group, shares, pieces, say):
    def sums():
        for s in ("first", "second"):
            group.reduce([getattr(share, s) for share in shares])()

    def none(tensors):
        return lambda: None

    def line(what, reduce, cut):
        say(f"  {what:58} {microseconds(group, lambda: step(shares, cut, reduce)):8.0f}")

    say("  microseconds of a step")
    line("no sums (wrong results), uncut", none, 1)
    say(f"  {'the sums alone, uncut':58} {microseconds(group, sums):8.0f}")
    line("uncut, sums behind their products", at_once(group.reduce), 1)
    for n in pieces:
        line(f"{n} pieces, sums behind their products", at_once(group.reduce), n)
        line(f"{n} pieces, sums under products", group.reduce, n)
        ran, under, beside = trace(group, lambda: step(shares, n, group.reduce))
        say(f"    traced: sums run {ran:.0f}, {under:.0f} of it while a product runs, "
            f"{beside:.0f} while any kernel does")


def main():
    parser = argparse.ArgumentParser(description="a transformer block on several GPUs")
    parser.add_argument("--pieces", default="2,4", help="numbers of pieces to measure")
    parser.add_argument("--rehearse", action="store_true", help="on the emulator")
    o = parser.parse_args()
    rehearse = o.rehearse or torch.cuda.device_count() < 2
    pieces = [int(n) for n in o.pieces.split(",")]
    if rehearse:
        group, size, kernels = Rehearsal(), SMALL, Kernels(tune="default")
    else:
        group = Processes() if "RANK" in os.environ else OneProcess()
        size, kernels = WHOLE, Kernels()

    def say(text):
        if group.mine[0] == 0:
            print(text, flush=True)

    name = "" if rehearse else f" on {torch.cuda.get_device_name()}"
    say(f"{group.how}{name}: {size.tokens} tokens, width {size.width}, {size.heads} heads, "
        f"MLP of {size.hidden}")
    shares = [Share(r, group.ranks, d, size, kernels) for r, d in zip(group.mine, group.devices)]
    want, usual = references(group, size)
    for n in [1, *pieces]:
        error = check(group, shares, n, want, usual)
        say(f"  {n} piece{'s' * (n > 1)}: relative error {error:.5f}, torch's block in bf16 "
            f"{usual:.5f}")
    if not rehearse:
        measure(group, shares, pieces, say)
    group.close()


main()
