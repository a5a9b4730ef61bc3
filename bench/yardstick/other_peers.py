"""Peers and right answers of the group `other`: the kernels of tests/exec.

No library ships most of these tasks as one kernel. A peer is then what somebody with PyTorch would
run: the libraries' products, and torch.compile for what is around them. In the forms of peers.py.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import math

import torch
import torch.nn.functional as F

from buffers import compiled, copy, gated


@contextlib.contextmanager
def _cudnn_measures():
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _conv1d(t, case):
    """Positions as the width of an image of one line, channels last: no copies around cuDNN."""
    x, w = t["X"], t["W"]
    image = x.view(1, 1, *x.shape).permute(0, 3, 1, 2)
    filters = w.permute(1, 2, 0)[:, :, None, :].contiguous(memory_format=torch.channels_last)

    def call():
        with _cudnn_measures():
            y = F.conv2d(image, filters, padding=(0, w.shape[0] // 2))
        return y[0, :, 0, :x.shape[0]].T
    return call


def _padded(x, taps):
    return F.pad(x, (0, 0, taps // 2, taps - 1 - taps // 2))


def _conv1d_products(t, case):
    """A product per tap; who pads is not asked for the time."""
    w, y, n = t["W"], t["Y"], t["X"].shape[0]
    x = _padded(t["X"], w.shape[0])

    def call():
        torch.mm(x[:n], w[0].T, out=y)
        for s in range(1, w.shape[0]):
            torch.addmm(y, x[s:s + n], w[s].T, out=y)
        return y
    return call


def _w8(t, case):
    """Scales go into the weights: one pass over them, and nothing after the product."""
    widen = compiled(lambda w, s: (w.float() * s[:, None]).to(torch.bfloat16))
    return lambda: t["A"] @ widen(t["W"], t["scale"]).mT


def _nibbles(w):
    """[N, K] of the values 0 to 15."""
    return torch.cat([w & 15, w >> 4], dim=1)


def _w4(t, case):
    a = t["A"].flatten(1)
    widen = compiled(lambda w, s: ((_nibbles(w).float() - 8) * s[:, None]).to(torch.bfloat16))
    return lambda: a @ widen(t["W"], t["scale"]).mT


def _tinygemm(t, case):
    """PyTorch's kernel for few rows; the weights are packed as it likes them beforehand."""
    a, w, group = t["A"].flatten(1), _nibbles(t["W"]), 256
    packed = torch._convert_weight_to_int4pack((w[:, ::2] << 4) | w[:, 1::2], 8)
    scales = torch.stack([t["scale"], torch.zeros_like(t["scale"])], dim=1).to(torch.bfloat16)
    scales = scales.expand(w.shape[1] // group, -1, -1).contiguous()
    return lambda: torch._weight_int4pack_mm(a, packed, group, scales)


def _gram(t, case):
    return lambda: torch.mm(t["X"].mT, t["X"], out_dtype=torch.float32)


def _pairwise(t, case):
    def distances(x, y):
        xx, yy = x.float().square().sum(1), y.float().square().sum(1)
        return (xx[:, None] + yy[None, :] - 2.0 * (x @ y.mT).float()).clamp_min(0.0)
    both = compiled(distances)
    return lambda: both(t["X"], t["Y"])


def _add_product(t, case):
    return lambda: torch.addmm(t["C"], t["A"], t["B"].mT, out_dtype=torch.float32, out=t["C"])


def _product_then_add(t, case):
    return lambda: t["C"].add_(torch.mm(t["A"], t["B"].mT, out_dtype=torch.float32))


def _linear_attention(t, case, chunk=128):
    """Chunks at once, the states between them by a running sum."""
    def attend(q, k, v):
        h, n, d = q.shape
        shape = h, n // chunk, chunk, d
        q, k, v = q.view(shape), k.view(shape), v.view(shape)
        of_chunk = (k.mT @ v).float()
        state = (of_chunk.cumsum(1) - of_chunk).to(torch.bfloat16)
        inside = (q @ k.mT).tril()
        return ((q @ state).float() + (inside @ v).float()).view(h, n, d)
    attend = compiled(attend)
    return lambda: attend(t["Q"], t["K"], t["V"])


def _embed_rmsnorm(t, case):
    eps, columns = case.values["eps"], t["table"].shape[-1:]

    def norm(ids, table, gamma):
        x = F.embedding(ids, table).float()
        return F.rms_norm(x, columns, gamma, eps).to(torch.bfloat16)
    norm = compiled(norm)
    return lambda: norm(t["ids"], t["table"], t["gamma"])


def _cross_entropy(t, case):
    labels = t["labels"].long()
    loss = compiled(lambda x, labels: F.cross_entropy(x.float(), labels, reduction="none"))
    return lambda: loss(t["X"], labels)


def _logsumexp_argmax(t, case):
    both = compiled(lambda x: (torch.logsumexp(x, 1), torch.argmax(x, 1).to(torch.int32)))
    return lambda: both(t["X"])


def _masked_softmax(t, case):
    softmax = compiled(lambda x, mask: torch.softmax(x.masked_fill(mask == 0, -math.inf), 1))
    return lambda: softmax(t["X"], t["mask"])


def _residual_rmsnorm(t, case):
    eps, columns = case.values["eps"], t["X"].shape[-1:]

    def norm(x, res, gamma):
        total = x.float() + res.float()
        y = F.rms_norm(total, columns, gamma.float(), eps)
        return total.to(torch.bfloat16), y.to(torch.bfloat16)
    norm = compiled(norm)
    return lambda: norm(t["X"], t["res"], t["gamma"])


PEERS = {
    "conv1d": {"cudnn": _conv1d, "cublas": _conv1d_products},
    "w8": {"torch.compile": _w8},
    "w4": {"torch.compile": _w4},
    "w4_few_rows": {"tinygemm": _tinygemm, "torch.compile": _w4},
    "glu": {"torch.compile": gated("X", "Wg", "Wu")},
    "gram": {"cublas": _gram},
    "pairwise": {"torch.compile": _pairwise},
    "add_product": {"cublas": _add_product, "torch": _product_then_add},
    "linear_attention": {"torch.compile": _linear_attention, "copy": copy},
    "embed_rmsnorm": {"torch.compile": _embed_rmsnorm, "copy": copy},
    "cross_entropy": {"torch.compile": _cross_entropy, "copy": copy},
    "logsumexp_argmax": {"torch.compile": _logsumexp_argmax, "copy": copy},
    "masked_softmax": {"torch.compile": _masked_softmax, "copy": copy},
    "residual_rmsnorm": {"torch.compile": _residual_rmsnorm, "copy": copy},
}


def _answer_conv1d(t, case):
    w, n = t["W"], t["X"].shape[0]
    x = _padded(t["X"].float(), w.shape[0])
    return sum(x[s:s + n] @ w[s].float().T for s in range(w.shape[0]))


def _answer_w4(t, case):
    w = _nibbles(t["W"]).float() - 8
    return t["A"].flatten(1).float() @ w.mT * t["scale"]


def _answer_linear_attention(t, case):
    """By its definition, for a few heads."""
    heads = sorted({0, t["Q"].shape[0] // 2, t["Q"].shape[0] - 1})
    q, k, v = (t[x][heads].float() for x in "QKV")
    return (q @ k.mT).tril() @ v, heads


def _answer_cross_entropy(t, case, rows=1024):
    parts = []
    for x, labels in zip(t["X"].split(rows), t["labels"].long().split(rows)):
        x = x.float()
        parts.append(torch.logsumexp(x, 1) - x.gather(1, labels[:, None])[:, 0])
    return torch.cat(parts)


def _answer_residual_rmsnorm(t, case):
    total = t["X"].float() + t["res"].float()
    return [total, F.rms_norm(total, total.shape[-1:], t["gamma"].float(), case.values["eps"])]


ANSWERS = {
    "conv1d": _answer_conv1d,
    "w8": lambda t, c: t["A"].float() @ t["W"].float().mT * t["scale"],
    "w4": _answer_w4,
    "w4_few_rows": _answer_w4,
    "glu": lambda t, c: F.silu(t["X"].float() @ t["Wg"].float().mT)
    * (t["X"].float() @ t["Wu"].float().mT),
    "gram": lambda t, c: t["X"].float().mT @ t["X"].float(),
    "pairwise": lambda t, c: torch.cdist(
        t["X"].float(), t["Y"].float(),
        compute_mode="donot_use_mm_for_euclid_dist").square(),
    "add_product": lambda t, c: t["C"] + t["A"].float() @ t["B"].float().mT,
    "linear_attention": _answer_linear_attention,
    "embed_rmsnorm": lambda t, c: F.rms_norm(t["table"][t["ids"].long()].float(),
                                             t["table"].shape[-1:], t["gamma"], c.values["eps"]),
    "cross_entropy": _answer_cross_entropy,
    "logsumexp_argmax": lambda t, c: [torch.logsumexp(t["X"], 1), t["X"].amax(1)],
    "masked_softmax": lambda t, c: torch.softmax(
        t["X"].masked_fill(t["mask"] % 2 == 0, -math.inf), 1),
    "residual_rmsnorm": _answer_residual_rmsnorm,
}


def _seen_logsumexp_argmax(t, lse, best):
    """The element at the position: equal ones may stand at several."""
    columns, at = t["X"].shape[1], best.long()
    found = t["X"].gather(1, at.clamp(0, columns - 1)[:, None])[:, 0]
    return [lse, found.masked_fill((at < 0) | (at >= columns), math.nan)]


# What of the results is compared with the answer, where it is not they themselves.
SEEN = {"logsumexp_argmax": _seen_logsumexp_argmax}
