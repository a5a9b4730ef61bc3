"""Kernels of the kind people write in Triton, for scale: blocked, pipelined by its compiler, fixed
block sizes, no tricks by hand. Used where Triton is installed.

SPDX-License-Identifier: Apache-2.0
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbn, sbk, BM: tl.constexpr, BN: tl.constexpr,
             BK: tl.constexpr, GROUP: tl.constexpr):
    # Tiles are walked in bands of GROUP rows, so that neighbours share operands in L2.
    across = tl.cdiv(N, BN)
    down = tl.cdiv(M, BM)
    index = tl.program_id(0)
    band = index // (GROUP * across)
    height = min(GROUP, down - band * GROUP)
    m = band * GROUP + (index % (GROUP * across)) % height
    n = (index % (GROUP * across)) // height
    rows = m * BM + tl.arange(0, BM)
    columns = n * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a = a_ptr + rows[:, None] * sam + depth[None, :] * sak
    b = b_ptr + depth[:, None] * sbk + columns[None, :] * sbn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += BK * sak
        b += BK * sbk
    c = c_ptr + rows[:, None] * N + columns[None, :]
    tl.store(c, total.to(tl.bfloat16), mask=(rows[:, None] < M) & (columns[None, :] < N))


def product(t, case):
    """Two dims, sizes that the blocks divide."""
    if t["A"].dim() != 2:
        return None
    a = t["A"].mT if case.options.get("a_turned") else t["A"]
    b = t["B"].mT if case.options.get("b_turned") else t["B"]
    (m, k), n = a.shape, b.shape[0]
    bm, bn, bk = 128, 256, 64
    if m % bm or n % bn or k % bk:
        return None

    def call():
        _product[(m // bm * (n // bn),)](
            a, b, t["C"], m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), bm, bn, bk,
            8, num_warps=8, num_stages=3)
        return t["C"]
    return call


@triton.jit
def _attention(q_desc, k_desc, v_desc, o_desc, scale2, S, H, REPEAT, D: tl.constexpr,
               BQ: tl.constexpr, BKV: tl.constexpr, CAUSAL: tl.constexpr):
    block, bh = tl.program_id(0), tl.program_id(1)
    b, h = bh // H, bh % H
    row = (b * H + h) * S + block * BQ
    keys = (b * (H // REPEAT) + h // REPEAT) * S
    q = q_desc.load([row, 0])
    best = tl.full((BQ,), float("-inf"), tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    out = tl.zeros((BQ, D), tl.float32)
    free = block * BQ if CAUSAL else S  # keys that every row of the block sees
    for start in tl.range(0, free, BKV):
        s = tl.dot(q, k_desc.load([keys + start, 0]).T) * scale2
        top = tl.maximum(best, tl.max(s, 1))
        p = tl.exp2(s - top[:, None])
        shrink = tl.exp2(best - top)
        total = total * shrink + tl.sum(p, 1)
        out = tl.dot(p.to(tl.bfloat16), v_desc.load([keys + start, 0]), out * shrink[:, None])
        best = top
    if CAUSAL:
        rows = block * BQ + tl.arange(0, BQ)
        for start in tl.range(free, free + BQ, BKV):
            s = tl.dot(q, k_desc.load([keys + start, 0]).T) * scale2
            columns = start + tl.arange(0, BKV)
            s = tl.where(columns[None, :] <= rows[:, None], s, float("-inf"))
            top = tl.maximum(best, tl.max(s, 1))
            p = tl.exp2(s - top[:, None])
            shrink = tl.exp2(best - top)
            total = total * shrink + tl.sum(p, 1)
            out = tl.dot(p.to(tl.bfloat16), v_desc.load([keys + start, 0]), out * shrink[:, None])
            best = top
    o_desc.store([row, 0], (out / total[:, None]).to(tl.bfloat16))


def attention(t, case):
    from triton.tools.tensor_descriptor import TensorDescriptor
    q, k = t["Q"], t["K"]
    b, h, s, d = q.shape
    bq, bkv = 128, 128 if d == 64 else 64
    if s % bq or d > 128:
        return None

    def flat(x, rows):
        return TensorDescriptor.from_tensor(x.view(-1, d), [rows, d])
    descriptors = flat(q, bq), flat(k, bkv), flat(t["V"], bkv), flat(t["O"], bq)
    scale2 = case.values["scale"] * 1.4426950408889634

    def call():
        _attention[(s // bq, b * h)](
            *descriptors, scale2, s, h, h // k.shape[1], d, bq, bkv, case.options["causal"],
            num_warps=8, num_stages=3)
        return t["O"]
    return call


@triton.jit
def _linear_attention(q_ptr, k_ptr, v_ptr, o_ptr, T, D: tl.constexpr, BT: tl.constexpr):
    rows, depth = tl.arange(0, BT), tl.arange(0, D)
    at = tl.program_id(0).to(tl.int64) * T * D + rows[:, None] * D + depth[None, :]
    state = tl.zeros((D, D), dtype=tl.float32)
    for _ in range(0, T, BT):
        q, k, v = tl.load(q_ptr + at), tl.load(k_ptr + at), tl.load(v_ptr + at)
        inside = tl.where(rows[:, None] >= rows[None, :], tl.dot(q, k.T), 0.0)
        out = tl.dot(q, state.to(tl.bfloat16))
        out = tl.dot(inside.to(tl.bfloat16), v, out)
        tl.store(o_ptr + at, out)
        state = tl.dot(k.T, v, state)
        at += BT * D


def linear_attention(t, case):
    heads, length, d = t["Q"].shape
    if length % 64:
        return None

    def call():
        _linear_attention[(heads,)](t["Q"], t["K"], t["V"], t["O"], length, d, 64, num_warps=4,
                                    num_stages=3)
        return t["O"]
    return call


PEERS = {"product": product, "attention": attention, "linear_attention": linear_attention}
