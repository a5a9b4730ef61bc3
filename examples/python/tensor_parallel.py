"""Half of a transformer block's MLP on each of two GPUs, summed by the host's NCCL: Y = silu(X A) B with
A's columns and B's rows cut in two. The second product is cut along the tokens, so that the sum of one
piece runs while the next is computed.

    torchrun --nproc-per-node=2 tensor_parallel.py      one process per GPU
    python3 tensor_parallel.py                          one process for both

Written and not run: no machine with two GPUs was at hand.

SPDX-License-Identifier: Apache-2.0
"""

import os

import tilec
import torch

TOKENS, WIDTH, HIDDEN, PIECES = 4096, 1024, 4096, 4


def silu(x):
    return torch.nn.functional.silu(x.float()).bfloat16()


def weights(rank, ranks, device):
    """This GPU's part: rows of A (its outputs) and columns of B (its inputs), as std's gemm takes
    them: [outputs, inputs]."""
    random = torch.Generator().manual_seed(1)
    a = torch.randn(HIDDEN, WIDTH, generator=random) / WIDTH**0.5
    b = torch.randn(WIDTH, HIDDEN, generator=random) / HIDDEN**0.5
    part = slice(rank * HIDDEN // ranks, (rank + 1) * HIDDEN // ranks)
    return a[part].bfloat16().to(device), b[:, part].contiguous().bfloat16().to(device)


def pieces_of(gemm, x, a, b, reduce):
    """The rank's part of the result, piece by piece; `reduce` begins the sum of a piece and gives what
    to wait for."""
    h = silu(gemm(x, a))
    y = torch.empty(TOKENS, WIDTH, dtype=torch.bfloat16, device=x.device)
    waits = []
    rows = TOKENS // PIECES
    for i in range(PIECES):
        piece = slice(i * rows, (i + 1) * rows)
        gemm(h[piece], b, C=y[piece])
        waits.append(reduce(y[piece]))
    return y, waits


def check(y, x, whole):
    want = silu(x @ whole[0].T) @ whole[1].T
    error = (y.float() - want.float()).abs().max().item()
    assert error < 0.1, error
    return error


def one_process_each():
    import torch.distributed as dist

    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank)
    gemm = tilec.load("std/matmul.tile")["gemm"]
    x = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(2)).bfloat16().cuda()
    a, b = weights(rank, ranks, x.device)
    # NCCL's own stream waits for the product before it; the next product does not wait for NCCL.
    y, waits = pieces_of(gemm, x, a, b, lambda t: dist.all_reduce(t, async_op=True))
    for w in waits:
        w.wait()
    error = check(y, x, weights(0, 1, x.device))
    if rank == 0:
        print(f"{ranks} processes: max error {error:.3f}")
    dist.destroy_process_group()


def one_process_for_both():
    import torch.cuda.nccl as nccl

    ranks = 2
    gemm = tilec.load("std/matmul.tile")["gemm"]
    x = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(2)).bfloat16()
    xs = [x.to(f"cuda:{r}") for r in range(ranks)]
    parts = [weights(r, ranks, xs[r].device) for r in range(ranks)]
    sums = [torch.cuda.Stream(r) for r in range(ranks)]
    hidden, ys = [], []
    for r in range(ranks):
        with torch.cuda.device(r):
            hidden.append(silu(gemm(xs[r], parts[r][0])))
            ys.append(torch.empty(TOKENS, WIDTH, dtype=torch.bfloat16, device=xs[r].device))
    rows = TOKENS // PIECES
    for i in range(PIECES):
        piece = slice(i * rows, (i + 1) * rows)
        for r in range(ranks):
            with torch.cuda.device(r):
                gemm(hidden[r][piece], parts[r][1], C=ys[r][piece])
                sums[r].wait_stream(torch.cuda.current_stream())
        # On streams of their own: the products of the next piece run beside the sum of this one.
        nccl.all_reduce([y[piece] for y in ys], streams=sums)
    for r in range(ranks):
        sums[r].synchronize()
    print(f"one process: max error {check(ys[0], xs[0], weights(0, 1, xs[0].device)):.3f}")


if torch.cuda.device_count() < 2:
    print(f"two GPUs are needed, {torch.cuda.device_count()} are here: not run")
elif "RANK" in os.environ:
    one_process_each()
else:
    one_process_for_both()
