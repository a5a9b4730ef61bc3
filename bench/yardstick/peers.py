"""What experts ship for the same task, through PyTorch, and what the right answer is.

A peer is a function (tensors of one buffer set, case) → call; the call enqueues one launch and
returns the tensor that holds the result, or a tuple of them. A reference returns the answer in f32
or wider, or a list of answers, of all rows or of the part named by the slice beside it.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import library_peers
import model_peers
import other_peers
from buffers import compiled, copy, gated


def _operands(t, options):
    a = t["A"].mT if options.get("a_turned") else t["A"]
    b = t["B"] if options.get("b_turned") else t["B"].mT
    return a, b


@contextlib.contextmanager
def _blas(which):
    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library(which)
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)


def _product_with(which):
    def peer(t, case):
        a, b = _operands(t, case.options)
        c = t["C"]

        def call():
            with _blas(which):
                torch.matmul(a, b, out=c)
            return c
        return call
    return peer


def _product_e4m3(t, case):
    one = torch.ones((), device="cuda")

    def call():
        return torch._scaled_mm(t["A"], t["B"].mT, one, one, out_dtype=torch.bfloat16,
                                use_fast_accum=True)
    return call


def _attention_with(backend):
    def peer(t, case):
        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(
                    t["Q"], t["K"], t["V"], is_causal=case.options["causal"],
                    enable_gqa=t["Q"].shape[1] != t["K"].shape[1])
        return call
    return peer


def _bias_gelu(t, case):
    def call():
        return torch._addmm_activation(t["bias"], t["A"], t["B"].mT, use_gelu=True)
    return call


def _residual_rowscale(t, case):
    tail = compiled(lambda x, r, s: (x.float() * s[:, None] + r.float()).to(torch.bfloat16))
    return lambda: tail(t["A"] @ t["B"].mT, t["R"], t["row_scale"])


def _rmsnorm(t, case):
    eps, columns = case.values["eps"], t["X"].shape[-1:]

    def norm(x, gamma):
        return F.rms_norm(x.float(), columns, gamma, eps).to(torch.bfloat16)
    norm = compiled(norm)
    return lambda: norm(t["X"], t["gamma"])


def _layernorm(t, case):
    eps, columns = case.values["eps"], t["X"].shape[-1:]

    def norm(x, gamma, beta):
        return F.layer_norm(x.float(), columns, gamma, beta, eps).to(torch.bfloat16)
    norm = compiled(norm)
    return lambda: norm(t["X"], t["gamma"], t["beta"])


def _softmax(t, case):
    return lambda: torch.softmax(t["X"], dim=1)


def _sum(t, case):
    return lambda: torch.sum(t["X"], dim=case.options["axis"])


def _transpose(t, case):
    return lambda: t["Y"].copy_(t["X"].mT)


# Case.peer → contestants beside ours; the first is the one that ratios are against.
PEERS = {
    "product": {"cublas": _product_with("cublas"), "cublaslt": _product_with("cublaslt")},
    "product_e4m3": {"cublaslt": _product_e4m3},
    "attention": {"cudnn": _attention_with(SDPBackend.CUDNN_ATTENTION)},
    "attention_long": {"cudnn": _attention_with(SDPBackend.CUDNN_ATTENTION)},
    "attention_any": {"cudnn": _attention_with(SDPBackend.CUDNN_ATTENTION),
                      "flash": _attention_with(SDPBackend.FLASH_ATTENTION)},
    "bias_gelu": {"cublaslt": _bias_gelu},
    "swiglu": {"torch.compile": gated("A", "B", "U")},
    "residual_rowscale": {"torch.compile": _residual_rowscale},
    "rmsnorm": {"torch.compile": _rmsnorm, "copy": copy},
    "layernorm": {"torch.compile": _layernorm, "copy": copy},
    "softmax": {"torch": _softmax, "copy": copy},
    "sum": {"torch": _sum},
    "transpose": {"torch": _transpose, "copy": copy},
    **other_peers.PEERS,
    **model_peers.PEERS,
    **library_peers.PEERS,
}


def _reference_product(t, case):
    a, b = _operands(t, case.options)
    return a.float() @ b.float()


def _reference_attention(t, case):
    """A few heads: (answer, slice)."""
    q, k, v = t["Q"], t["K"], t["V"]
    heads = q.shape[1]
    chosen = sorted({0, heads // 2, heads - 1})
    parts = []
    for h in chosen:
        g = h // (heads // k.shape[1])
        s = q[:, h].float() @ k[:, g].float().mT * case.values["scale"]
        if case.options["causal"]:
            s.masked_fill_(torch.ones(s.shape[-2:], dtype=torch.bool, device="cuda").triu_(1),
                           float("-inf"))
        parts.append(torch.softmax(s, dim=-1) @ v[:, g].float())
    return torch.stack(parts, dim=1), (slice(None), chosen)


ANSWERS = {
    "rmsnorm": lambda t, c: F.rms_norm(t["X"].float(), t["X"].shape[-1:], t["gamma"],
                                       c.values["eps"]),
    "layernorm": lambda t, c: F.layer_norm(t["X"].float(), t["X"].shape[-1:], t["gamma"], t["beta"],
                                           c.values["eps"]),
    "softmax": lambda t, c: torch.softmax(t["X"].float(), dim=1),
    "sum": lambda t, c: torch.sum(t["X"].double(), dim=c.options["axis"]),
    "transpose": lambda t, c: t["X"].mT.float(),
    "product": _reference_product,
    "product_e4m3": lambda t, c: t["A"].float() @ t["B"].float().mT,
    "bias_gelu": lambda t, c: F.gelu(t["A"].float() @ t["B"].float().mT + t["bias"].float(),
                                     approximate="tanh"),
    "swiglu": lambda t, c: F.silu(t["A"].float() @ t["B"].float().mT)
    * (t["A"].float() @ t["U"].float().mT),
    "residual_rowscale": lambda t, c: (t["A"].float() @ t["B"].float().mT)
    * t["row_scale"][:, None] + t["R"].float(),
    "attention": _reference_attention, "attention_any": _reference_attention,
    "attention_long": _reference_attention,
    **other_peers.ANSWERS,
    **model_peers.ANSWERS,
    **library_peers.ANSWERS,
}


def prepare(tensors, case):
    """Inputs that follow from other inputs."""
    how = {**model_peers.PREPARE, **library_peers.PREPARE}.get(case.peer)
    if how:
        how(tensors, case)


class Answer:
    """The right results, and how far others are from them."""

    def __init__(self, tensors, case):
        seen = {**other_peers.SEEN, **model_peers.SEEN, **library_peers.SEEN}
        self.tensors, self.seen = tensors, seen.get(case.peer)
        answer = ANSWERS[case.peer](tensors, case)
        answer, self.part = answer if isinstance(answer, tuple) else (answer, None)
        self.values = answer if isinstance(answer, list) else [answer]
        self.norms = [v.double().norm().item() for v in self.values]

    def error(self, found):
        """‖result − answer‖ / ‖answer‖, the largest of all results; infinite if an element was not
        written."""
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        if self.seen:
            found = self.seen(self.tensors, *found)
        self.by_result = []
        for result, value, norm in zip(found, self.values, self.norms, strict=True):
            if not bool(torch.isfinite(result.float()).all()):
                return float("inf")
            if self.part is not None:
                result = result[self.part]
            off = (result.to(value.dtype) - value).double().norm().item()
            self.by_result.append(off / norm)
        return max(self.by_result)
