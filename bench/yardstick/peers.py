"""What experts ship for the same task, through PyTorch, and what the right answer is.

A peer is a function (tensors of one buffer set, case) → call; the call enqueues one launch and
returns the tensor that holds the result. A reference returns the answer in f32 or wider, of all
rows or of the part named by the slice beside it.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i8": torch.int8,
         "e4m3": torch.float8_e4m3fn}


def make_tensors(case, generator):
    """Random inputs; outputs poisoned with NaN."""
    out = {}
    for name, dtype, dims, role in case.tensors:
        t = torch.empty(dims, dtype=torch.float32 if dtype == "e4m3" else TORCH[dtype],
                        device="cuda")
        if role == "in":
            t.normal_(generator=generator)
            if name in ("gamma", "row_scale"):
                t.abs_().add_(0.5)
        else:
            t.fill_(float("nan"))
        out[name] = t.to(TORCH[dtype])
    return out


def poison(case, tensors):
    for name, _, _, role in case.tensors:
        if role == "out":
            tensors[name].fill_(float("nan"))


def result_name(case):
    return next(name for name, _, _, role in case.tensors if role == "out")


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


def _compiled(function):
    """Through torch.compile, or a failure that the table shows."""
    return torch.compile(function, dynamic=False)


def _bias_gelu(t, case):
    def call():
        return torch._addmm_activation(t["bias"], t["A"], t["B"].mT, use_gelu=True)
    return call


def _swiglu(t, case):
    both = torch.cat([t["B"], t["U"]])
    n = t["B"].shape[0]
    gate = _compiled(lambda x: F.silu(x[:, :n]) * x[:, n:])
    return lambda: gate(t["A"] @ both.mT)


def _residual_rowscale(t, case):
    tail = _compiled(lambda x, r, s: (x.float() * s[:, None] + r.float()).to(torch.bfloat16))
    return lambda: tail(t["A"] @ t["B"].mT, t["R"], t["row_scale"])


def _rmsnorm(t, case):
    eps, columns = case.values["eps"], t["X"].shape[-1:]

    def norm(x, gamma):
        return F.rms_norm(x.float(), columns, gamma, eps).to(torch.bfloat16)
    compiled = _compiled(norm)
    return lambda: compiled(t["X"], t["gamma"])


def _layernorm(t, case):
    eps, columns = case.values["eps"], t["X"].shape[-1:]

    def norm(x, gamma, beta):
        return F.layer_norm(x.float(), columns, gamma, beta, eps).to(torch.bfloat16)
    compiled = _compiled(norm)
    return lambda: compiled(t["X"], t["gamma"], t["beta"])


def _softmax(t, case):
    return lambda: torch.softmax(t["X"], dim=1)


def _sum(t, case):
    return lambda: torch.sum(t["X"], dim=case.options["axis"])


def _transpose(t, case):
    return lambda: t["Y"].copy_(t["X"].mT)


def _copy(t, case):
    """A copy that moves as many bytes as the case must: a kernel's, because a large memcpy in a
    graph was seen at 2.8 TB/s where kernels (and a memcpy outside) move 4.2 on an H200."""
    source = torch.randn(case.bytes() // 8, device="cuda")
    target = torch.empty_like(source)
    return lambda: torch.mul(source, 1.0, out=target)


# Case.peer → contestants beside ours; the first is the one that ratios are against.
PEERS = {
    "product": {"cublas": _product_with("cublas"), "cublaslt": _product_with("cublaslt")},
    "product_e4m3": {"cublaslt": _product_e4m3},
    "attention": {"cudnn": _attention_with(SDPBackend.CUDNN_ATTENTION)},
    "bias_gelu": {"cublaslt": _bias_gelu},
    "swiglu": {"torch.compile": _swiglu},
    "residual_rowscale": {"torch.compile": _residual_rowscale},
    "rmsnorm": {"torch.compile": _rmsnorm, "copy": _copy},
    "layernorm": {"torch.compile": _layernorm, "copy": _copy},
    "softmax": {"torch": _softmax, "copy": _copy},
    "sum": {"torch": _sum},
    "transpose": {"torch": _transpose, "copy": _copy},
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


_ROWS = {
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
    "attention": _reference_attention,
}


class Answer:
    """The right result, and how far another is from it."""

    def __init__(self, tensors, case):
        answer = _ROWS[case.peer](tensors, case)
        self.value, self.part = answer if isinstance(answer, tuple) else (answer, None)
        self.norm = self.value.double().norm().item()

    def error(self, result):
        """‖result − answer‖ / ‖answer‖; infinite if an element was not written."""
        if not bool(torch.isfinite(result.float()).all()):
            return float("inf")
        if self.part is not None:
            result = result[self.part]
        return (result.to(self.value.dtype) - self.value).double().norm().item() / self.norm
