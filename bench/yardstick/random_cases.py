"""Cases that nobody listed: sizes drawn by a seed, the same for everybody who draws.

    products    M, N, K log-uniform in 1…65536, four layouts, bf16, f16, e4m3, some in batches
    attention   head dims 64, 128, 256, heads with and without groups, lengths log-uniform in
                1…65536, causal or not, some of them decoding (one query)
    rows        1…200000 columns, every other count odd, softmax and norms in their types

A case is drawn again where its buffers or its work would take too long to time beside its peers.

SPDX-License-Identifier: Apache-2.0
"""

import math
import random

MOST_BYTES, MOST_FLOPS = 6e9, 4e12  # of one set of buffers; 5 ms at the ceiling
LAYOUTS = ("tn", "nn", "nt", "tt")


def _log(draw, low, high):
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


def _multiple(n, of):
    return max(of, n // of * of)


def _product(make, draw, i):
    m, n, k = (_log(draw, 1, 65536) for _ in range(3))
    kind = draw.choice(("bf16", "bf16", "bf16", "f16", "e4m3", "batched"))
    layout = draw.choice(LAYOUTS) if kind in ("bf16", "f16") else "tn"
    # Libraries take operands whose rows are whole 16 bytes; so do copies of tensors.
    of = 16 if kind == "e4m3" else 8
    k, n = _multiple(k, of), _multiple(n, of)
    if layout in ("nn", "nt"):
        m = _multiple(m, of)
    if kind == "batched":
        z = _log(draw, 2, 256)
        return make.batched(f"r{i}_bmm_{z}x{m}x{n}x{k}", z, m, n, k)
    if kind == "e4m3":
        return make.e4m3(f"r{i}_e4m3_{m}x{n}x{k}", m, n, k)
    return make.product(f"r{i}_{kind}_{layout}_{m}x{n}x{k}", kind, layout, m, n, k)


def _attention(make, draw, i):
    d, causal = draw.choice((64, 64, 128, 128, 256)), draw.random() < 0.5
    groups, share = _log(draw, 1, 16), draw.choice((1, 1, 2, 4, 8))
    s, b = _log(draw, 1, 65536), _log(draw, 1, 64)
    kind = draw.choice(("self", "self", "self", "cross", "decode"))
    length = s if kind == "self" else _log(draw, 1, 65536)
    if kind == "decode":
        s, causal = 1, False
    if kind == "cross":
        causal = False
    name = f"r{i}_fa_b{b}_h{groups * share}_{groups}_s{s}_l{length}_d{d}" + "_causal" * causal
    return make.attention(name, b, groups * share, groups, s, length, d, causal)


def _row(make, draw, i):
    c = _log(draw, 1, 200000)
    c = c | 1 if draw.random() < 0.5 else _multiple(c, 8)
    r = max(1, round(_log(draw, 1 << 20, 1 << 29) / c))
    kernel = draw.choice(("softmax", "softmax_bf16", "layernorm", "rmsnorm"))
    return make.row(f"r{i}_{kernel}_{r}x{c}", kernel, r, c)


_KINDS = {"product": _product, "attention": _attention, "row": _row}


def draw(make, kind, seed, count):
    """`make`: one function for each form of task (cases.py). `kind`: product, attention or row."""
    source = random.Random(f"{kind} {seed}")
    out = []
    while len(out) < count:
        case = _KINDS[kind](make, source, len(out))
        if case.size() <= MOST_BYTES and case.flops <= MOST_FLOPS * (2 if "e4m3" in case.unit else 1):
            out.append(case)
    return out
