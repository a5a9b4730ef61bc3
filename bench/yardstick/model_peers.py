"""Peers, right answers and prepared inputs of the group `model`: kernels of stdlib/models.

Where a library ships the task, it is the peer; where what binds is bytes, a copy of as many is the
measure beside it. In the forms of peers.py.

SPDX-License-Identifier: Apache-2.0
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from buffers import compiled, copy

# ---- attention


def _forward(t, case):
    """O and the logarithm of its sums, for the backward kernels to start from."""
    q, k, v, causal = t["Q"], t["K"], t["V"], case.options["causal"]
    o, lse = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[:2]
    t["O"].copy_(o)
    t["LSE"].copy_(lse)


def _backward_peer(t, case):
    leaves = [t[x].detach().requires_grad_() for x in "QKV"]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        o = F.scaled_dot_product_attention(*leaves, is_causal=case.options["causal"])

    def call():
        dq, dk, dv = torch.autograd.grad(o, leaves, t["dO"], retain_graph=True)
        return t["delta"], dk, dv, dq
    call()
    return call


def _adding_peer(t, case):
    call = _backward_peer(t, case)

    def adding():
        delta, dk, dv, dq = call()
        return delta, t["dQ32"], dk, dv, dq
    return adding


def _answer_backward(t, case):
    """Of one head, from the definition."""
    q, k, v, do = (t[x][:1, :1].float() for x in ("Q", "K", "V", "dO"))
    s = q @ k.mT * case.values["scale"]
    if case.options["causal"]:
        s.masked_fill_(torch.ones(s.shape[-2:], dtype=torch.bool, device="cuda").triu_(1),
                       float("-inf"))
    p = torch.softmax(s, dim=-1)
    del s
    dv, dp = p.mT @ do, do @ v.mT
    delta = (dp * p).sum(-1, keepdim=True)
    ds = p * (dp - delta) * case.values["scale"]
    return [ds.mT @ q, dv, ds @ k]


def _bf16_forward(t, case):
    """The same task on bf16."""
    q, k, v = t["Q"].bfloat16(), t["K"].bfloat16(), t["V"].mT.bfloat16().contiguous()

    def call():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=case.options["causal"],
                                                  enable_gqa=True)
    return call


def _longer_keys(backend):
    def peer(t, case):
        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(t["Q"], t["K"], t["V"], is_causal=True)
        return call
    return peer


def _answer_forward(t, case, of=lambda x: x):
    """Of the first head."""
    q, k, v = (t[x][:1, :1].float() for x in "QKV")
    s = q @ k.mT * case.values["scale"]
    if case.options["causal"]:
        s.masked_fill_(torch.ones(s.shape[-2:], dtype=torch.bool, device="cuda").triu_(1),
                       float("-inf"))
    return [torch.softmax(s, dim=-1) @ of(v)]


def _answer_latent(t, case):
    kv = t["KV"].float()
    s = t["Q"].float() @ kv.mT * case.values["scale"]
    return [torch.softmax(s, dim=-1) @ kv[..., :512]]


def _decode_peer(backend):
    def peer(t, case):
        b, g, r, d = t["Q"].shape
        q = t["Q"].view(b, g * r, 1, d)

        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, t["K"], t["V"], enable_gqa=True)
        return call
    return peer


def _answer_decode(t, case):
    s = t["Q"].float() @ t["K"].float().mT * case.values["scale"]
    return [torch.softmax(s, dim=-1) @ t["V"].float()]


def _unpaged(t, name):
    b = t["Q"].shape[0]
    pages = t[name][t["table"].long()]  # [B, T, N, G, D]
    return pages.flatten(1, 2).transpose(1, 2).reshape(b, t["Q"].shape[1], -1, t["Q"].shape[3])


def _answer_paged(t, case):
    return _answer_decode({"Q": t["Q"], "K": _unpaged(t, "K"), "V": _unpaged(t, "V")}, case)


# ---- products


def _cut(t, case):
    experts, rows, bm = (case.options[x] for x in ("experts", "rows", "bm"))
    if "offset" in t:
        t["offset"].copy_(torch.arange(experts + 1, device="cuda") * rows)
        return
    pieces = rows // bm
    cut = torch.full_like(t["cut"], experts * rows)
    cut[:experts * pieces] = torch.arange(experts * pieces, device="cuda") * bm
    group = torch.full_like(t["group"], experts - 1)
    group[:experts * pieces] = torch.arange(experts * pieces, device="cuda") // pieces
    t["cut"].copy_(cut)
    t["group"].copy_(group)


def _per_expert(t, case, name):
    return t[name].view(case.options["experts"], case.options["rows"], -1)


def _grouped(t, case, of=lambda x: x):
    return torch.bmm(of(_per_expert(t, case, "X")), of(t["W"]).mT).flatten(0, 1)


def _grouped_dx(t, case, of=lambda x: x):
    return torch.bmm(of(_per_expert(t, case, "dY")), of(t["W"])).flatten(0, 1)


def _grouped_dw(t, case, of=lambda x: x):
    return torch.bmm(of(_per_expert(t, case, "dY")).mT, of(_per_expert(t, case, "X")))


def _bmm(what):
    return {"cublas": lambda t, case: lambda: what(t, case)}


def _plain_fp8(t, case):
    """Without scales: the rate that scales should not cost."""
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(t["A"], t["B"].mT, one, one, out_dtype=torch.bfloat16,
                                    use_fast_accum=True)


def _answer_block_fp8(t, case):
    a = t["A"].float() * t["sa"].mT.repeat_interleave(128, 1)
    b = t["B"].float() * t["sb"].repeat_interleave(128, 0).repeat_interleave(128, 1)
    return [a @ b.mT]


def _widened(t, case):
    """[N, K] in f32."""
    if case.peer == "w8a16":
        return t["W"].float() * t["scale"].mT.repeat_interleave(128, 1)
    w = torch.cat([t["W"] & 15, t["W"] >> 4], dim=2).float() - t["zero"].mT[..., None].float()
    return (w * t["scale"].mT[..., None]).flatten(1)


def _bf16_product(t, case):
    """A product of bf16 weights: the rate at many rows."""
    a, w = t["A"].flatten(1), _widened(t, case).bfloat16()
    return lambda: a @ w.mT


# ---- convolutions


def _image(x):
    return x.permute(0, 3, 1, 2)


def _filters(f):
    return f.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)


def _conv(t, case):
    x, f = _image(t["X"]), _filters(t["F"])

    def call():
        torch.backends.cudnn.benchmark = True
        return F.conv2d(x, f, padding="same").permute(0, 2, 3, 1)
    return call


def _conv_back(t, case, which, like, out):
    def call():
        torch.backends.cudnn.benchmark = True
        x, f = like
        return out(torch.ops.aten.convolution_backward(
            _image(t["dY"]), x, f, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
            [which == 0, which == 1, False])[which])
    return call


def _conv_dx(t, case):
    x = torch.empty_like(t["dX"])
    return _conv_back(t, case, 0, (_image(x), _filters(t["F"])), lambda y: y.permute(0, 2, 3, 1))


def _conv_dw(t, case):
    f = _filters(torch.empty_like(t["dF"]))
    return _conv_back(t, case, 1, (_image(t["X"]), f), lambda y: y.permute(2, 3, 0, 1))


def _taps(x, r):
    """The image shifted by each tap, zeros outside."""
    h, w = x.shape[1:3]
    wide = F.pad(x, (0, 0, r // 2, r // 2, r // 2, r // 2))
    return {(a, b): wide[:, a:a + h, b:b + w] for a in range(r) for b in range(r)}


def _answer_conv(t, case):
    f, x = t["F"].float(), _taps(t["X"].float(), t["F"].shape[0])
    return [sum(x[at] @ f[at].mT for at in x)]


def _answer_conv_dx(t, case):
    f, y = t["F"].float(), _taps(t["dY"].float(), t["F"].shape[0])
    r = t["F"].shape[0]
    return [sum(y[a, b] @ f[r - 1 - a, r - 1 - b] for a, b in y)]


def _answer_conv_dw(t, case):
    r, y = t["dF"].shape[0], t["dY"].float().flatten(0, 2)
    x = _taps(t["X"].float(), r)
    rows = [torch.stack([y.mT @ x[a, b].flatten(0, 2) for b in range(r)]) for a in range(r)]
    return [torch.stack(rows)]


# ---- rows


def _rms(t):
    return t["X"].float(), t["inv"][:, None]


def _rmsnorm_dx(t):
    x, inv = _rms(t)
    w = t["dY"].float() * t["gamma"]
    return inv * (w - x * inv * inv * (w * x).mean(1, keepdim=True))


def _layernorm_dx(t):
    inv, w = t["inv"][:, None], t["dY"].float() * t["gamma"]
    x = (t["X"].float() - t["mean"][:, None]) * inv
    return inv * (w - w.mean(1, keepdim=True) - x * (w * x).mean(1, keepdim=True))


def _rmsnorm_train(t, case):
    x = t["X"].float()
    inv = torch.rsqrt(x.square().mean(1) + case.values["eps"])
    return [x * inv[:, None] * t["gamma"], inv]


def _in_parts(rows, of, *names):
    """Long rows a few at a time: an answer in f32 of all would not fit."""
    def answer(t, case):
        parts = zip(*(t[n].split(rows) for n in names))
        return [torch.cat(column) for column in zip(*(of(*part) for part in parts))]
    return answer


def _entropy(x, label):
    x = x.float()
    lse = torch.logsumexp(x, 1)
    return lse - x.gather(1, label.long()[:, None])[:, 0], lse


def _entropy_dx(x, label, lse, g):
    p = torch.exp(x.float() - lse[:, None])
    p.scatter_add_(1, label.long()[:, None], -torch.ones_like(g)[:, None])
    return (p * g[:, None],)


def _kl(x, target):
    """`target`: logarithms, whatever they add up to."""
    target = target.float()
    return ((target.exp() * (target - torch.log_softmax(x.float(), 1))).sum(1),)


def _softmax_dx(y, dy):
    y, dy = y.float(), dy.float()
    return (y * (dy - (y * dy).sum(1, keepdim=True)),)


# ---- flat buffers, tokens, sequences


def _adamw(t, case):
    v = case.values
    g = t["g"].float() * v["scale"]
    m = v["beta1"] * t["m"] + (1 - v["beta1"]) * g
    s = v["beta2"] * t["v"] + (1 - v["beta2"]) * g * g
    step = m / v["c1"] / ((s / v["c2"]).sqrt() + v["eps"]) + v["decay"] * t["p"]
    p = t["p"] - v["lr"] * step
    return [p, m, s, p]


def _lion(t, case):
    v = case.values
    g = t["g"].float() * v["scale"]
    u = v["beta1"] * t["m"] + (1 - v["beta1"]) * g
    p = t["p"] - v["lr"] * (u.sign() + v["decay"] * t["p"])
    return [p, v["beta2"] * t["m"] + (1 - v["beta2"]) * g, p]


def _turned(t, case, halves):
    at = t["position"].long()
    c, s = t["cos"][at][:, None], t["sin"][at][:, None]
    x = t["X"].float()
    a, b = (x[:, :, 0], x[:, :, 1]) if halves else (x[..., 0], x[..., 1])
    return [torch.stack([a * c - b * s, a * s + b * c], dim=2 if halves else 3)]


def _embed_backward(t, case):
    return [t["dtable"].index_add(0, t["id"].long(), t["dY"].float())]


def _decay(t, case):
    """Of a few channels, in f64."""
    a, x = t["a"][:, :, :64].double(), t["x"][:, :, :64].double()
    state, out = t["start"][:, :64].double(), []
    for i in range(a.shape[1]):
        state = a[:, i] * state + x[:, i]
        out.append(state)
    return [torch.stack(out, 1)]


def _ssd(t, case):
    """The recurrence itself, of two heads, in f64."""
    heads = [0, t["X"].shape[2] - 1]
    x, c = t["X"][:, :, heads].double(), t["Cm"][:, :, 0].double()
    d = F.softplus(t["dt"][:, heads].double() + t["bias"][heads, None].double())
    a, b = -t["A_log"][heads].double().exp(), t["Bm"][:, :, 0].double()
    state, out = t["state_in"][:, heads].double(), []
    for i in range(x.shape[1]):
        keep = torch.exp(d[:, :, i] * a)[..., None, None]
        state = keep * state + d[:, :, i, None, None] * b[:, i, None, :, None] * x[:, i, :, None, :]
        out.append(torch.einsum("bn,bhnp->bhp", c[:, i], state))
    y = torch.stack(out, 1) + x * t["skip"][heads, None].double()
    return [y, state]


def _by_torch(answer):
    """torch.compile of the answer's own formula."""
    def peer(t, case):
        run = compiled(lambda: answer(t, case))
        return lambda: run()
    return {"torch.compile": peer, "copy": copy}


_COPY = {"copy": copy}
PEERS = {
    "attention_backward": {"cudnn": _backward_peer},
    "attention_backward_adding": {"cudnn": _adding_peer},
    "decode": {"cudnn": _decode_peer(SDPBackend.CUDNN_ATTENTION),
               "flash": _decode_peer(SDPBackend.FLASH_ATTENTION), "copy": copy},
    "decode_paged": _COPY, "mla_decode": _COPY,
    "attention_fp8": {"cudnn": _bf16_forward},
    "attention_longer": {"cudnn": _longer_keys(SDPBackend.CUDNN_ATTENTION),
                         "flash": _longer_keys(SDPBackend.FLASH_ATTENTION)},
    "grouped": _bmm(_grouped), "grouped_dx": _bmm(_grouped_dx), "grouped_dw": _bmm(_grouped_dw),
    "block_fp8": {"cublaslt": _plain_fp8},
    "w8a16": {"cublas": _bf16_product, "copy": copy},
    "w4a16": {"cublas": _bf16_product, "copy": copy},
    "conv2d": {"cudnn": _conv}, "conv2d_dx": {"cudnn": _conv_dx}, "conv2d_dw": {"cudnn": _conv_dw},
    "rmsnorm_train": _by_torch(_rmsnorm_train),
    "rmsnorm_dx": _by_torch(lambda t, c: _rmsnorm_dx(t).bfloat16()),
    "rmsnorm_dgamma": _COPY,
    "layernorm_dx": _by_torch(lambda t, c: _layernorm_dx(t).bfloat16()),
    "softmax_backward": _COPY, "cross_entropy_train": _COPY, "cross_entropy_dx": _COPY,
    "kl_divergence": _COPY,
    "top_k": {"torch": lambda t, case: lambda: torch.topk(t["X"], 8), "copy": copy},
    "adamw": _COPY, "lion": _COPY, "squares": _COPY, "dropout": _COPY, "rope": _COPY,
    "rope_halves": _COPY, "embed": _COPY, "embed_backward": _COPY,
    "scan_rows": {"torch": lambda t, case: lambda: torch.cumsum(t["X"], 1), "copy": copy},
    "decay_scan": _COPY, "ssd": _COPY,
}

ANSWERS = {
    "attention_backward": _answer_backward, "attention_backward_adding": _answer_backward,
    "decode": _answer_decode, "decode_paged": _answer_paged, "mla_decode": _answer_latent,
    "attention_fp8": lambda t, c: _answer_forward(t, c, lambda v: v.mT),
    "attention_longer": _answer_forward,
    "grouped": lambda t, c: _grouped(t, c, torch.Tensor.float),
    "grouped_dx": lambda t, c: _grouped_dx(t, c, torch.Tensor.float),
    "grouped_dw": lambda t, c: _grouped_dw(t, c, torch.Tensor.float),
    "block_fp8": _answer_block_fp8,
    "w8a16": lambda t, c: t["A"].flatten(1).float() @ _widened(t, c).mT,
    "w4a16": lambda t, c: t["A"].flatten(1).float() @ _widened(t, c).mT,
    "conv2d": _answer_conv, "conv2d_dx": _answer_conv_dx, "conv2d_dw": _answer_conv_dw,
    "rmsnorm_train": _rmsnorm_train,
    "rmsnorm_dx": lambda t, c: _rmsnorm_dx(t),
    "rmsnorm_dgamma": lambda t, c: (t["X"].float() * t["inv"][:, None] * t["dY"].float()).sum(0),
    "layernorm_dx": lambda t, c: _layernorm_dx(t),
    "softmax_backward": _in_parts(2048, _softmax_dx, "Y", "dY"),
    "cross_entropy_train": _in_parts(1024, _entropy, "X", "label"),
    "cross_entropy_dx": _in_parts(1024, _entropy_dx, "X", "label", "lse", "g"),
    "kl_divergence": _in_parts(1024, _kl, "X", "T"),
    "top_k": lambda t, c: torch.topk(t["X"], 8).values,
    "adamw": _adamw, "lion": _lion,
    "squares": lambda t, c: t["g"].double().square().sum()[None],
    "dropout": lambda t, c: [t["X"].float() / (1 - c.values["p"]),
                             torch.tensor([c.values["p"]], device="cuda")],
    "rope": lambda t, c: _turned(t, c, False), "rope_halves": lambda t, c: _turned(t, c, True),
    "embed": lambda t, c: t["table"][t["id"].long()].float(),
    "embed_backward": _embed_backward,
    "scan_rows": lambda t, c: torch.cumsum(t["X"].double(), 1),
    "decay_scan": _decay, "ssd": _ssd,
}


def _seen_dropout(t, y):
    """Where something is kept, it is scaled; and the share that is not."""
    kept = y != 0
    whole = torch.where(kept, y.float(), t["X"].float() / 0.9)
    return [whole, (1 - kept.float().mean())[None]]


# What of the results is compared with the answer, where it is not they themselves.
SEEN = {
    "attention_backward": lambda t, delta, dk, dv, dq: [dk[:1, :1], dv[:1, :1], dq[:1, :1]],
    "attention_backward_adding":
        lambda t, delta, dq32, dk, dv, dq: [dk[:1, :1], dv[:1, :1], dq[:1, :1]],
    "decode": lambda t, *found: [found[-1].view(t["Q"].shape)],
    "decode_paged": lambda t, *found: [found[-1].view(t["Q"].shape)],
    "mla_decode": lambda t, part, lse, o: [o],
    "attention_fp8": lambda t, o: [o[:1, :1]], "attention_longer": lambda t, o: [o[:1, :1]],
    "attention_long": lambda t, o, *again: [o],
    "w8a16": lambda t, c, *plain: [c], "w4a16": lambda t, c, *plain: [c],
    "rmsnorm_dgamma": lambda t, parts: [parts.sum(0)],
    "squares": lambda t, parts: [parts.double().sum()[None]],
    "top_k": lambda t, values, places: [t["X"].gather(1, places.long())],
    "dropout": _seen_dropout,
    "decay_scan": lambda t, h: [h[:, :, :64]],
    "ssd": lambda t, y, state: [y[:, :, [0, -1]], state[:, [0, -1]]],
}

# Inputs that follow from others.
PREPARE = {"attention_backward": _forward, "attention_backward_adding": _forward, "grouped": _cut,
           "grouped_dx": _cut, "grouped_dw": _cut}
