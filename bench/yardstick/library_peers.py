"""Peers and right answers of library_cases.py, in the forms of peers.py.

SPDX-License-Identifier: Apache-2.0
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from buffers import copy


def _lora(t, case, of=lambda x: x):
    x, w, a, b = (of(t[n]) for n in "XWAB")
    return torch.addmm(x @ w.mT, x @ a.mT, b.mT, alpha=case.values["scale"])


def _lower(t, of=lambda x: x):
    low = of(t["S"]).tril()
    return low + low.tril(-1).mT


def _symm(t, case):
    s = _lower(t).contiguous()
    return lambda: s @ t["B"]


def _complex(t, case):
    """As one real product."""
    (ar, ai), b = t["A"], torch.cat(list(t["B"]), 1)
    a = torch.cat([torch.cat([ar, -ai], 1), torch.cat([ai, ar], 1)])
    return lambda: (a @ b.mT).view(2, *t["C"].shape[1:])


def _answer_complex(t, case):
    a, b = (torch.complex(*t[n].double()) for n in "AB")
    return torch.view_as_real(a @ b.mT).permute(2, 0, 1)


def _listed(t, case):
    """Each block row has as many blocks, at random columns."""
    rows = t["start"].numel() - 1
    each = t["W"].shape[0] // rows
    t["start"].copy_(torch.arange(rows + 1, device="cuda") * each)
    columns = torch.rand(rows, t["X"].shape[1] // 64, device="cuda").argsort(1)[:, :each]
    t["column"].copy_(columns.sort(1).values.flatten())


def _answer_sparse(t, case):
    rows, k = t["start"].numel() - 1, t["X"].shape[1]
    w = torch.zeros(rows, k // 64, 64, 64, device="cuda")
    row = torch.arange(rows, device="cuda").repeat_interleave(t["W"].shape[0] // rows)
    w[row, t["column"].long()] = t["W"].float()
    return t["X"].float() @ w.permute(0, 2, 1, 3).reshape(rows * 64, k).mT


def _dense_quarter(t, case):
    """A product of as many operations."""
    x = t["X"][:, :t["X"].shape[1] // 4].contiguous()
    w = torch.randn(t["Y"].shape[1], x.shape[1], device="cuda", dtype=x.dtype)
    return lambda: x @ w.mT


def _nibbles(words, axis, order):
    shifts = torch.tensor([4 * order.index(i) for i in range(8)], device="cuda")
    words = words.view(torch.int32).to(torch.int64) & 0xffffffff
    apart = (words.unsqueeze(-1) >> shifts) & 15
    if axis == 0:
        return apart.permute(0, 2, 1).flatten(0, 1)
    return apart.flatten(1, 2)


def _unpacked(t, kind):
    plain, awq = list(range(8)), [0, 2, 4, 6, 1, 3, 5, 7]
    if kind == "gptq":
        q, z = _nibbles(t["Wq"], 0, plain), _nibbles(t["zero"], 1, plain) + 1
    else:
        q, z = _nibbles(t["Wq"], 1, awq), _nibbles(t["zero"], 1, awq)
    scale = t["scale"].float().repeat_interleave(128, 0)
    return (q - z.repeat_interleave(128, 0)) * scale


def _rows(t):
    """Of the product: X of the kernel that unpacks, A of the plain product behind one that does."""
    return t["X"] if "X" in t else t["A"]


def _f16_product(kind):
    def peer(t, case):
        x, w = _rows(t), _unpacked(t, kind).half().mT.contiguous()
        return lambda: x @ w.mT
    return peer


def _linear_loss(t, case, of=lambda x: x):
    out, w = [], of(t["W"])
    for rows in range(0, t["X"].shape[0], 2048):
        part = slice(rows, rows + 2048)
        s = of(t["X"][part]) @ w.mT
        lse = torch.logsumexp(s, 1).float()
        out.append((lse, lse - s.gather(1, t["label"][part].long()[:, None])[:, 0].float()))
    return [torch.cat(x) for x in zip(*out)]


def _without_sink(t, case):
    def call():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(t["Q"], t["K"], t["V"], is_causal=True,
                                                  enable_gqa=True)
    return call


def _answer_sink(t, case):
    q, k, v = (t[x][:1, :1].float() for x in "QKV")
    s = q @ k.mT * case.values["scale"]
    s.masked_fill_(torch.ones(s.shape[-2:], dtype=torch.bool, device="cuda").triu_(1),
                   float("-inf"))
    sink = t["sink"][0].expand(*s.shape[:-1], 1)
    return [torch.softmax(torch.cat([s, sink], -1), -1)[..., :-1] @ v]


def _retention(t, case):
    q, k, v = (t[x][0, :2].double() for x in "QKV")
    i = torch.arange(q.shape[1], device="cuda").double()
    apart = i[:, None] - i[None, :]
    worth = torch.where(apart >= 0, torch.exp2(t["decay"][:2, None, None].double() * apart), 0.0)
    return [((q @ k.mT) * worth) @ v]


def _delta_of(q, k, v, beta, decay):
    alpha = torch.exp2(decay)
    state, out = torch.zeros(2, k.shape[-1], v.shape[-1], device="cuda").double(), []
    for i in range(q.shape[1]):
        state = state * alpha[:, i, None, None]
        u = (v[:, i] - (state.mT @ k[:, i, :, None])[..., 0]) * beta[:, i, None]
        state = state + k[:, i, :, None] * u[:, None, :]
        out.append((state.mT @ q[:, i, :, None])[..., 0])
    return torch.stack(out, 1)


def _gated_delta(t, case):
    """Of two heads."""
    return [_delta_of(*(t[x][0, :2].double() for x in (*"QKV", "beta", "decay")))]


def _grads(forward, inputs, *given):
    """What `given` at the results of `forward` gives its inputs."""
    inputs = [x.double().detach().requires_grad_() for x in inputs]
    with torch.enable_grad():
        return list(torch.autograd.grad(forward(*inputs), inputs, [g.double() for g in given]))


def _gated_delta_back(t, case):
    return _grads(_delta_of, [t[x][0, :2] for x in (*"QKV", "beta", "decay")], t["dO"][0, :2])


def _rwkv7(t, case):
    return _rwkv7_of(*(t[x][0, :, :2].double() for x in "RWKVAB"), t["state_in"][0, :2].double())


def _rwkv7_back(t, case):
    return _grads(_rwkv7_of, [t[x][0, :, :2] for x in "RWKVAB"] + [t["state_in"][0, :2]],
                  t["dY"][0, :, :2], t["dstate_out"][0, :2])


def _rwkv7_of(r, w, k, v, a, b, state):
    w, out = torch.exp(-torch.exp(w)), []
    for i in range(r.shape[0]):
        sa = state @ a[i, :, :, None]
        state = state * w[i, :, None, :] + sa * b[i, :, None, :]
        state = state + v[i, :, :, None] * k[i, :, None, :]
        out.append((state @ r[i, :, :, None])[..., 0])
    return [torch.stack(out), state]


def _selective_of(x, dt, a_log, bias, skip, b, c):
    a, d = -torch.exp(a_log), F.softplus(dt + bias)
    h, out = torch.zeros_like(a), []
    for i in range(x.shape[0]):
        h = torch.exp(d[i, :, None] * a) * h + (d[i] * x[i])[:, None] * b[i]
        out.append((h * c[i]).sum(1) + skip * x[i])
    return torch.stack(out)


def _channels(t):
    """The first 64 of the first batch: x, dt, A_log, bias, skip, b, c."""
    return [t[n][0, :, :64] for n in ("X", "dt")] + [t[n][:64] for n in ("A_log", "bias", "skip")] \
        + [t["Bm"][0], t["Cm"][0]]


def _selective(t, case):
    return [_selective_of(*(x.double() for x in _channels(t)))]


def _selective_back(t, case):
    return _grads(_selective_of, _channels(t), t["dY"][0, :, :64])[:5]


def _faded_sum(t, case):
    q, k, v = (t[x][0, :, :1].double().transpose(0, 1) for x in "QKV")
    total = t["fade"][0, :1].double().cumsum(1)
    worth = torch.exp2((total[:, :, None] - total[:, None, :]).tril()).tril()
    return [((q @ k.mT) * worth) @ v]


def _fft(t, case):
    x = torch.complex(*t["X"].flatten(2).float())
    return lambda: torch.view_as_real(torch.fft.fft(x)).permute(2, 0, 1).view(t["Y"].shape)


def _answer_fft(t, case):
    x = torch.complex(*t["X"][:, :64].flatten(2).double())
    return [torch.view_as_real(torch.fft.fft(x)).permute(2, 0, 1).reshape(2, 64, 64, 64)]


def _first(t):
    """Channels first by name, last in memory."""
    return t.permute(0, 3, 1, 2)


def _pool(t, case):
    x = _first(t["X"])

    def call():
        return F.max_pool2d(x, 3, 2, 1).permute(0, 2, 3, 1), t["at"]
    return call


def _answer_pool_back(t, case):
    n, oh, ow, c = t["dY"].shape
    h, w = t["dX"].shape[1:3]
    at = t["at"].long()
    y = torch.arange(oh, device="cuda")[:, None, None] * 2 + at // 3 - 1
    x = torch.arange(ow, device="cuda")[None, :, None] * 2 + at % 3 - 1
    inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
    place = (y.clamp(0, h - 1) * w + x.clamp(0, w - 1)).view(n, oh * ow, c)
    out = torch.zeros(n, h * w, c, device="cuda")
    out.scatter_add_(1, place, torch.where(inside, t["dY"].float(), 0.0).view(n, oh * ow, c))
    return out.view(n, h, w, c)


def _depthwise(t, case, of=lambda x: x):
    x, f = of(_first(t["X"])), of(t["F"].to(t["X"].dtype)).permute(2, 0, 1)[:, None]
    return F.conv2d(x, f, padding=1, groups=x.shape[1]).permute(0, 2, 3, 1)


def _grouped(t, case, of=lambda x: x):
    n, h, w, g, i = t["X"].shape
    f = of(t["F"]).permute(0, 3, 4, 1, 2).flatten(0, 1)
    y = F.conv2d(of(_first(t["X"].flatten(3))), f, padding=1, groups=g)
    return y.permute(0, 2, 3, 1).reshape(t["Y"].shape)


def _conv1d(t, case, of=lambda x: x):
    y = F.conv1d(of(t["X"].mT), of(t["F"]).permute(1, 2, 0), stride=2, padding=1)
    return y.mT


def _causal(t, case):
    x = t["X"][:1].float().mT
    y = F.conv1d(x, t["F"].mT[:, None], t["bias"], padding=3, groups=x.shape[1])[..., :x.shape[2]]
    return [F.silu(y).mT]


def _group_norm(t, case):
    groups = t["mean"].shape[1]
    x = t["X"].float().unflatten(2, (groups, -1))
    mean = x.mean((1, 3))
    inv = torch.rsqrt(x.var((1, 3), unbiased=False) + case.values["eps"])
    y = (x - mean[:, None, :, None]) * inv[:, None, :, None]
    return [y.flatten(2) * t["gamma"] + t["beta"], mean, inv]


def _group_norm_dx(t, case):
    groups = t["mean"].shape[1]
    x, d = (t[n].float().unflatten(2, (groups, -1)) for n in ("X", "dY"))
    mean, inv = (t[n][:, None, :, None] for n in ("mean", "inv"))
    hat, d = (x - mean) * inv, d * t["gamma"].view(groups, -1)
    along = (d * hat).mean((1, 3), keepdim=True)
    return [((d - d.mean((1, 3), keepdim=True) - hat * along) * inv).flatten(2)]


def _gelu_back(t, case):
    """Of the first columns; parts are added up."""
    with torch.enable_grad():
        z = (t["Z"][:, :256].float() + t["bias"][:256]).requires_grad_()
        dz, = torch.autograd.grad(F.gelu(z, approximate="tanh"), z, t["dY"][:, :256].float())
    return [dz, dz.sum(0)]


def _top_p(t, case):
    def call():
        x, order = (t["X"] / case.values["temperature"]).sort(1, descending=True)
        p = torch.softmax(x, 1)
        kept = torch.where(p.cumsum(1) - p < case.values["p"], p, 0.0)
        at = (kept.cumsum(1) <= t["u"][:, None] * kept.sum(1, keepdim=True)).sum(1, keepdim=True)
        return order.gather(1, at)
    return call


def _answer_top_p(t, case):
    """Tokens in their own order."""
    x = t["X"].double() / case.values["temperature"]
    p = torch.softmax(x, 1)
    high, order = p.sort(1, descending=True)
    most = torch.where(high.cumsum(1) - high < case.values["p"], high, 2.0).amin(1, keepdim=True)
    kept = torch.where(p >= most, p, 0.0)
    at = kept.cumsum(1) <= t["u"][:, None].double() * kept.sum(1, keepdim=True)
    return at.sum(1)


def _triangular(t, case):
    return lambda: torch.linalg.solve_triangular(t["L"], t["B"], upper=False, unitriangular=True)


def _shifted(t, case):
    low = t["A"].tril()
    n = low.shape[-1]
    eye = torch.eye(n, device="cuda") * case.values["shift"]
    return low + low.tril(-1).mT + eye


def _cholesky(t, case):
    a = _shifted(t, case)
    return lambda: torch.linalg.cholesky(a)


_COPY = {"copy": copy}

PEERS = {
    "lora": {"torch": lambda t, c: lambda: _lora(t, c)},
    "syrk": {"cublas": lambda t, c: lambda: t["A"] @ t["A"].mT},
    "symm": {"cublas": _symm}, "complex": {"cublas": _complex},
    "block_sparse": {"cublas": _dense_quarter},
    "gptq": {"cublas": _f16_product("gptq")}, "awq": {"cublas": _f16_product("awq")},
    "linear_loss": {"torch": lambda t, c: lambda: (t["part"], t["at"], *_linear_loss(t, c))},
    "attention_sinks": {"cudnn": _without_sink},
    "retention": _COPY, "gated_delta": _COPY, "gated_delta_chunks": _COPY, "rwkv7": _COPY,
    "rwkv7_chunks": _COPY, "selective_scan": _COPY, "selective_back": _COPY, "rwkv7_back": _COPY,
    "rwkv7_chunks_back": _COPY,
    "gated_delta_back": _COPY, "faded_sum": _COPY, "group_norm_dx": _COPY,
    "fft": {"torch": _fft, "copy": copy},
    "max_pool": {"torch": _pool, "copy": copy}, "max_pool_back": _COPY,
    "depthwise": {"cudnn": lambda t, c: lambda: _depthwise(t, c), "copy": copy},
    "conv2d_grouped": {"cudnn": lambda t, c: lambda: _grouped(t, c)},
    "conv1d_strided": {"cudnn": lambda t, c: lambda: _conv1d(t, c)},
    "causal_conv": _COPY, "group_norm": _COPY, "gelu_back": _COPY,
    "greedy": {"torch": lambda t, c: lambda: t["X"].argmax(1), "copy": copy},
    "top_p": {"torch": _top_p, "copy": copy}, "histogram": _COPY,
    "swap_middle": {"torch": lambda t, c: lambda: t["X"].transpose(1, 2).contiguous(),
                    "copy": copy},
    "rotate_left": {"torch": lambda t, c: lambda: t["X"].permute(1, 2, 0).contiguous(),
                    "copy": copy},
    "triangular": {"torch": _triangular, "copy": copy},
    "cholesky": {"torch": _cholesky, "copy": copy}, "qr": _COPY,
}

ANSWERS = {
    "lora": lambda t, c: _lora(t, c, torch.Tensor.float),
    "syrk": lambda t, c: t["A"].float() @ t["A"].float().mT,
    "symm": lambda t, c: _lower(t, torch.Tensor.float) @ t["B"].float(),
    "complex": _answer_complex, "block_sparse": _answer_sparse,
    "gptq": lambda t, c: _rows(t).float() @ _unpacked(t, "gptq"),
    "awq": lambda t, c: _rows(t).float() @ _unpacked(t, "awq"),
    "linear_loss": lambda t, c: _linear_loss(t, c, torch.Tensor.float),
    "attention_sinks": _answer_sink, "retention": _retention, "gated_delta": _gated_delta,
    "gated_delta_chunks": _gated_delta, "gated_delta_back": _gated_delta_back, "rwkv7": _rwkv7,
    "rwkv7_chunks": _rwkv7, "rwkv7_back": _rwkv7_back, "rwkv7_chunks_back": _rwkv7_back,
    "selective_scan": _selective,
    "selective_back": _selective_back, "faded_sum": _faded_sum, "group_norm_dx": _group_norm_dx,
    "fft": _answer_fft,
    "max_pool": lambda t, c: [F.max_pool2d(_first(t["X"].float()), 3, 2, 1).permute(0, 2, 3, 1)],
    "max_pool_back": _answer_pool_back,
    "depthwise": lambda t, c: _depthwise(t, c, torch.Tensor.float),
    "conv2d_grouped": lambda t, c: _grouped(t, c, torch.Tensor.float),
    "conv1d_strided": lambda t, c: _conv1d(t, c, torch.Tensor.float),
    "causal_conv": _causal, "group_norm": _group_norm, "gelu_back": _gelu_back,
    "greedy": lambda t, c: t["X"].amax(1), "top_p": _answer_top_p,
    "histogram": lambda t, c: torch.bincount(t["X"].int().flatten(), minlength=256),
    "swap_middle": lambda t, c: t["X"].transpose(1, 2).float(),
    "rotate_left": lambda t, c: t["X"].permute(1, 2, 0),
    "triangular": lambda t, c: _triangular(t, c)(),
    "cholesky": lambda t, c: torch.linalg.cholesky(_shifted(t, c).double()),
    "qr": lambda t, c: [t["A"].double()],
}

SEEN = {
    "gptq": lambda t, c, *plain: [c], "awq": lambda t, c, *plain: [c],
    "lora": lambda t, y, *low: [y],
    "attention_sinks": lambda t, o: [o[:1, :1]],
    "linear_loss": lambda t, part, at, lse, loss: [lse, loss],
    "retention": lambda t, o: [o[0, :2]], "gated_delta": lambda t, o: [o[0, :2]],
    "gated_delta_chunks": lambda t, w, u, g, o: [o[0, :2]],
    "rwkv7": lambda t, y, state: [y[0, :, :2], state[0, :2]],
    "rwkv7_chunks": lambda t, *all: [all[4][0, :, :2], all[-1][0, :2]],
    "selective_scan": lambda t, y: [y[0, :, :64]], "faded_sum": lambda t, o: [o[0, :, 0][None]],
    "selective_back": lambda t, h, work, dx, ddt, da, db, dc, dbias, dskip: [
        dx[0, :, :64], ddt[0, :, :64], da[0, :64], dbias[0, :64], dskip[0, :64]],
    "rwkv7_chunks_back": lambda t, *all: [x[0, :, :2] for x in all[-7:-1]] + [all[-1][0, :2]],
    "rwkv7_back": lambda t, states, work, *all: [x[0, :, :2] for x in all[:6]] + [all[6][0, :2]],
    "gated_delta_back": lambda t, w, u, rows, du, dr, g, s, ds, dq, dk, dv, dbeta, ddecay: [
        x[0, :2] for x in (dq, dk, dv, dbeta.sum(0), ddecay.sum(0))],
    "fft": lambda t, y: [y[:, :64]],
    "max_pool": lambda t, y, at: [y], "causal_conv": lambda t, y: [y[:1]],
    "gelu_back": lambda t, dz, parts: [dz[:, :256], parts[:, :256].sum(0)],
    "greedy": lambda t, place: [t["X"].gather(1, place.long()[:, None])[:, 0]],
    "qr": lambda t, q, r: [q.double() @ r.double()],
    "histogram": lambda t, parts, count: [count],
}

PREPARE = {"block_sparse": _listed}
