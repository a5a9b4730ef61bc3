"""The cases by stable id: one row each, data only.

An id is never reused for another shape; a new shape is a new row. FLOP and byte counts are the
task's (each input read once, each output written once, causal attention half), not the kernel's.
`kernel` None: the language or the library has no kernel for it yet, and `why` says what is missing.

SPDX-License-Identifier: Apache-2.0
"""

import math
import types
from dataclasses import dataclass, field

import model_cases
import random_cases

BYTES = {"bf16": 2, "f16": 2, "f32": 4, "i32": 4, "e4m3": 1, "i8": 1, "u8": 1, "u32": 4}
# Practical ceilings of the reference machine (H200 SXM, rested): FLOP/s by operand, bytes/s.
CEILING = {"bf16": 790e12, "e4m3": 1500e12, "f32": 60e12}
BANDWIDTH = 4.3e12


@dataclass
class Case:
    id: str
    group: str
    kernel: str  # FILE:KERNEL
    tensors: list  # (name, dtype, dims, role): role in, out, inout
    values: dict  # dims that no tensor binds, scalars, constants, tunes
    peer: str  # a function of peers.py
    flops: float = 0.0
    unit: str = "bf16"  # which ceiling
    priority: int = 0
    options: dict = field(default_factory=dict)  # of the peer and the reference
    why: str = ""
    # Inputs that are not random normal: name → ("integers", from, below), ("distinct", below),
    # ("positive",), ("share",), which is uniform in 0…1, ("small",), ("decay",), a little below 0,
    # and ("words",), any bits.
    fill: dict = field(default_factory=dict)
    touched: dict = field(default_factory=dict)  # name → elements, where a launch needs not all
    # Of a task of several launches, in order: (FILE:KERNEL, names of its tensors, its values). What
    # one step writes a later one may read.
    steps: list = field(default_factory=list)

    def launches(self):
        """[(FILE:KERNEL, rows of `tensors`, values)]"""
        if not self.steps:
            return [(self.kernel, self.tensors, self.values)]
        rows = {t[0]: t for t in self.tensors}
        return [(kernel, [rows[n] for n in names], values) for kernel, names, values in self.steps]

    def bytes(self):
        """What a launch must move."""
        total = 0
        for name, dtype, dims, role in self.tensors:
            n = self.touched.get(name, math.prod(dims))
            total += n * BYTES[dtype] * (2 if role == "inout" else 1)
        return total

    def size(self):
        """What one set of buffers takes."""
        return sum(BYTES[dtype] * math.prod(dims) for _, dtype, dims, _ in self.tensors)

    def floor_ms(self):
        return 1e3 * max(self.flops / CEILING[self.unit], self.bytes() / BANDWIDTH)

    def compute_bound(self):
        return self.flops / CEILING[self.unit] >= self.bytes() / BANDWIDTH


# Where the contracted dim lies. T/N of A: K- or M-contiguous; of B: K- or N-contiguous is N or T.
_LAYOUTS = {  # letters → kernel, A is [K, M], B is [K, N]
    "tn": ("gemm", False, False),
    "nn": ("gemm_tt", True, False),
    "nt": ("gemm_tn", True, True),
    "tt": ("gemm_nn", False, True),
}


def _gemm(id, m, n, k, layout="tn", priority=0):
    kernel, a_turned, b_turned = _LAYOUTS[layout]
    return Case(id, "product", f"std/matmul.tile:{kernel}",
                [("A", "bf16", (k, m) if a_turned else (m, k), "in"),
                 ("B", "bf16", (k, n) if b_turned else (n, k), "in"),
                 ("C", "bf16", (m, n), "out")],
                {}, "product", 2.0 * m * n * k, "bf16", priority,
                {"a_turned": a_turned, "b_turned": b_turned})


def _attention(id, s, d, causal, h=64, g=8, b=1, priority=0):
    flops = 4.0 * b * h * s * s * d * (0.5 if causal else 1)
    return Case(id, "attention", "std/attention.tile:attention",
                [("Q", "bf16", (b, h, s, d), "in"), ("K", "bf16", (b, g, s, d), "in"),
                 ("V", "bf16", (b, g, s, d), "in"), ("O", "bf16", (b, h, s, d), "out")],
                {"scale": d ** -0.5, "causal": causal}, "attention", flops, "bf16", priority,
                {"causal": causal})


def _attention_long(id, s, d, causal=False, h=64, g=8):
    """The same, in the two launches of attention with one reference a row."""
    case = _attention(id, s, d, causal, h, g, priority=2)
    of = "std/models/attention_long.tile:attention_"
    case.kernel, case.group, case.peer = of + "fixed", "model", "attention_long"
    case.tensors.append(("again", "i32", (1, h, s), "out"))
    case.steps = [(of + "fixed", ["Q", "K", "V", "O", "again"], case.values),
                  (of + "again", ["Q", "K", "V", "again", "O"], case.values)]
    return case


def _rows(id, kernel, dtype, rows, columns, peer, vectors=(), values=None, priority=0):
    tensors = [("X", dtype, (rows, columns), "in")]
    tensors += [(v, "f32", (columns,), "in") for v in vectors]
    tensors += [("Y", dtype, (rows, columns), "out")]
    return Case(id, "row", kernel, tensors, values or {}, peer, 0.0, "bf16", priority,
                fill={"gamma": ("positive",)} if "gamma" in vectors else {})


def _reduction(id, kernel, rows, columns, axis):
    return Case(id, "reduction", f"std/reduce.tile:{kernel}",
                [("X", "f32", (rows, columns), "in"),
                 ("Y", "f32", (rows if axis == 1 else columns,), "out")],
                {}, "sum", 0.0, "f32", 2, {"axis": axis})


def _missing(id, group, why, priority=1):
    return Case(id, group, None, [], {}, "", 0.0, "bf16", priority, {}, why)


def _fused(id, kernel, m, n, k, extra, peer, priority=1, products=1):
    tensors = [("A", "bf16", (m, k), "in"), ("B", "bf16", (n, k), "in")]
    tensors += extra + [("C", "bf16", (m, n), "out")]
    return Case(id, "epilogue", kernel, tensors, {}, peer, 2.0 * products * m * n * k, "bf16",
                priority, fill={"row_scale": ("positive",)} if peer == "residual_rowscale" else {})


def _other(id, kernel, tensors, peer, flops=0.0, values=None, **more):
    """A kernel of tests/exec: written to be unlike the library's, with nobody's tunes."""
    return Case(id, "other", f"tests/exec/{kernel}", tensors, values or {}, peer, flops, "bf16", 2,
                **more)


def _conv1d(id, t, i, o, s):
    return _other(id, "conv1d.tile:conv1d",
                  [("X", "bf16", (t, i), "in"), ("W", "bf16", (s, o, i), "in"),
                   ("Y", "bf16", (t, o), "out")], "conv1d", 2.0 * t * i * o * s)


def _w8(id, m, n, k):
    return _other(id, "dequant.tile:gemm_w8",
                  [("A", "bf16", (m, k), "in"), ("W", "i8", (n, k), "in"),
                   ("scale", "f32", (n,), "in"), ("C", "bf16", (m, n), "out")],
                  "w8", 2.0 * m * n * k,
                  fill={"W": ("integers", -128, 128), "scale": ("positive",)})


def _w4(id, m, n, k, peer):
    return _other(id, "dequant.tile:gemm_w4",
                  [("A", "bf16", (m, 2, k // 2), "in"), ("W", "u8", (n, k // 2), "in"),
                   ("scale", "f32", (n,), "in"), ("C", "bf16", (m, n), "out")],
                  peer, 2.0 * m * n * k,
                  fill={"W": ("integers", 0, 256), "scale": ("positive",)})


def _swiglu(id, m, n, k):
    return _other(id, "glu.tile:swiglu",
                  [("X", "bf16", (m, k), "in"), ("Wg", "bf16", (n, k), "in"),
                   ("Wu", "bf16", (n, k), "in"), ("H", "bf16", (m, n), "out")],
                  "glu", 4.0 * m * n * k)


def _gram(id, n, d):
    """Both triangles count, as the peer computes both."""
    return _other(id, "gram.tile:gram",
                  [("X", "bf16", (n, d), "in"), ("G", "f32", (d, d), "out")],
                  "gram", 2.0 * n * d * d)


def _pairwise(id, m, n, k):
    return _other(id, "pairwise.tile:pairwise",
                  [("X", "f16", (m, k), "in"), ("Y", "f16", (n, k), "in"),
                   ("D", "f32", (m, n), "out")], "pairwise", 2.0 * m * n * k)


def _split_k(id, m, n, k):
    """C += A · Bᵀ, on both sides: launch after launch adds to what is there."""
    return _other(id, "split_k.tile:split_k",
                  [("A", "bf16", (m, k), "in"), ("B", "bf16", (n, k), "in"),
                   ("C", "f32", (m, n), "inout")], "add_product", 2.0 * m * n * k,
                  fill={"C": ("integers", -128, 128)})


def _linear_attention(id, h, t, d):
    """FLOPs of the recurrence: k vᵀ and q · state of every position."""
    return _other(id, "linear_attention.tile:linear_attention",
                  [(x, "bf16", (h, t, d), "in") for x in "QKV"] + [("O", "f32", (h, t, d), "out")],
                  "linear_attention", 4.0 * h * t * d * d)


def _embedding(id, t, v, c):
    """Different tokens, so that no row of the table is found in L2."""
    return _other(id, "embedding.tile:embed_rmsnorm",
                  [("ids", "i32", (t,), "in"), ("table", "bf16", (v, c), "in"),
                   ("gamma", "f32", (c,), "in"), ("Y", "bf16", (t, c), "out")],
                  "embed_rmsnorm", values={"eps": 1e-5},
                  fill={"ids": ("distinct", v), "gamma": ("positive",)}, touched={"table": t * c})


def _cross_entropy(id, r, c):
    return _other(id, "cross_entropy.tile:cross_entropy",
                  [("X", "bf16", (r, c), "in"), ("labels", "i32", (r,), "in"),
                   ("loss", "f32", (r,), "out")], "cross_entropy",
                  fill={"labels": ("integers", 0, c)})


def _logsumexp(id, r, c):
    return _other(id, "logsumexp.tile:logsumexp_argmax",
                  [("X", "f32", (r, c), "in"), ("lse", "f32", (r,), "out"),
                   ("best", "i32", (r,), "out")], "logsumexp_argmax")


def _masked_softmax(id, r, c):
    return _other(id, "masked_softmax.tile:masked_softmax",
                  [("X", "f32", (r, c), "in"), ("mask", "u8", (r, c), "in"),
                   ("Y", "f32", (r, c), "out")], "masked_softmax",
                  fill={"mask": ("integers", 0, 2)})


def _residual_rmsnorm(id, r, c):
    return _other(id, "residual_norm.tile:residual_rmsnorm",
                  [("X", "bf16", (r, c), "in"), ("res", "bf16", (r, c), "in"),
                   ("gamma", "bf16", (c,), "in"), ("total", "bf16", (r, c), "out"),
                   ("Y", "bf16", (r, c), "out")], "residual_rmsnorm", values={"eps": 1e-5},
                  fill={"gamma": ("positive",)})


CASES = [
    _gemm("gemm_bf16_4096", 4096, 4096, 4096),
    _gemm("gemm_bf16_8192", 8192, 8192, 8192),
    _gemm("gemm_bf16_8192_nn", 8192, 8192, 8192, "nn"),
    _gemm("gemm_bf16_8192_nt", 8192, 8192, 8192, "nt"),
    _gemm("gemm_bf16_8192_tt", 8192, 8192, 8192, "tt"),
    _gemm("gemm_bf16_8192x28672x8192", 8192, 28672, 8192),
    _gemm("gemm_bf16_4096x4096x14336", 4096, 4096, 14336),
    _gemm("gemm_bf16_4096x14336x4096", 4096, 14336, 4096),
    _gemm("gemm_bf16_65536x1024x1024", 65536, 1024, 1024),
    _attention("fa_fwd_bf16_d128_s8192", 8192, 128, False),
    _attention("fa_fwd_bf16_d128_s8192_causal", 8192, 128, True),
    _attention("fa_fwd_bf16_d128_s2048", 2048, 128, False),
    _attention("fa_fwd_bf16_d128_s2048_causal", 2048, 128, True),
    _attention("fa_fwd_bf16_d128_s16384", 16384, 128, False),
    _attention("fa_fwd_bf16_d128_s16384_causal", 16384, 128, True),
    _gemm("gemm_bf16_m16_14336x4096", 16, 14336, 4096),
    _gemm("gemm_bf16_m64_14336x4096", 64, 14336, 4096),
    _gemm("gemm_bf16_m128_14336x4096", 128, 14336, 4096),
    _rows("rmsnorm_bf16_16384x4096_fwd", "std/norm.tile:rmsnorm", "bf16", 16384, 4096, "rmsnorm",
          ["gamma"], {"eps": 1e-5}),
    _rows("rmsnorm_bf16_4096x16384_fwd", "std/norm.tile:rmsnorm", "bf16", 4096, 16384, "rmsnorm",
          ["gamma"], {"eps": 1e-5}),
    _fused("gemm_bf16_bias_gelu_8192x14336x4096", "bench/kernels/fused.tile:gemm_bias_gelu_tanh",
           8192, 14336, 4096, [("bias", "bf16", (14336,), "in")], "bias_gelu"),
    _fused("gemm_bf16_swiglu_8192x14336x4096", "bench/kernels/fused.tile:gemm_swiglu",
           8192, 14336, 4096, [("U", "bf16", (14336, 4096), "in")], "swiglu", products=2),
    _fused("gemm_bf16_residual_rowscale_8192x4096x14336",
           "bench/kernels/fused.tile:gemm_residual_rowscale", 8192, 4096, 14336,
           [("R", "bf16", (8192, 4096), "in"), ("row_scale", "f32", (8192,), "in")],
           "residual_rowscale"),
    # The plain product of the same FLOPs, for the epilogues' price.
    _gemm("gemm_bf16_8192x14336x4096", 8192, 14336, 4096, priority=1),
    _gemm("gemm_bf16_8192x28672x4096", 8192, 28672, 4096, priority=1),
    _gemm("gemm_bf16_8192x4096x14336", 8192, 4096, 14336, priority=1),
    Case("gemm_fp8_8192", "product", "std/matmul_types.tile:gemm_e4m3",
         [("A", "e4m3", (8192, 8192), "in"), ("B", "e4m3", (8192, 8192), "in"),
          ("C", "bf16", (8192, 8192), "out")], {}, "product_e4m3", 2.0 * 8192 ** 3, "e4m3", 1),
    Case("bmm_bf16_64x1024", "product", "std/matmul_fused.tile:gemm_batched",
         [("A", "bf16", (64, 1024, 1024), "in"), ("B", "bf16", (64, 1024, 1024), "in"),
          ("C", "bf16", (64, 1024, 1024), "out")], {}, "product", 2.0 * 64 * 1024 ** 3, "bf16", 1,
         {"a_turned": False, "b_turned": False}),
    _gemm("gemm_bf16_splitk_512x512x16384", 512, 512, 16384, priority=1),
    _gemm("gemm_bf16_wave_2304x4352x4096", 2304, 4352, 4096, priority=1),
    _attention("fa_fwd_bf16_d64_s16384", 16384, 64, False, 32, 32, priority=1),
    _attention("fa_fwd_bf16_d64_s16384_causal", 16384, 64, True, 32, 32, priority=1),
    _attention("fa_fwd_bf16_d256_s16384", 16384, 256, False, 8, 8, priority=1),
    _attention("fa_fwd_bf16_d256_s16384_causal", 16384, 256, True, 8, 8, priority=1),
    _attention_long("fa_long_bf16_d128_s2048", 2048, 128),
    _attention_long("fa_long_bf16_d128_s8192", 8192, 128),
    _attention_long("fa_long_bf16_d128_s8192_causal", 8192, 128, True),
    _attention_long("fa_long_bf16_d128_s16384", 16384, 128),
    _attention_long("fa_long_bf16_d128_s16384_causal", 16384, 128, True),
    _rows("softmax_bf16_16384x32768", "std/softmax.tile:softmax_bf16", "bf16", 16384, 32768,
          "softmax", priority=2),
    _rows("softmax_fp32_16384x32768", "std/softmax.tile:softmax", "f32", 16384, 32768, "softmax",
          priority=2),
    _rows("layernorm_bf16_16384x4096", "std/norm.tile:layernorm", "bf16", 16384, 4096, "layernorm",
          ["gamma", "beta"], {"eps": 1e-5}, priority=2),
    _reduction("rowsum_fp32_32768x32768", "row_sum", 32768, 32768, 1),
    _reduction("colsum_fp32_32768x32768", "col_sum", 32768, 32768, 0),
    Case("transpose_bf16_16384", "copy", "std/transpose.tile:transpose",
         [("X", "bf16", (16384, 16384), "in"), ("Y", "bf16", (16384, 16384), "out")], {},
         "transpose", 0.0, "bf16", 2),
    _conv1d("conv1d_bf16_32768x1024x1024_5taps", 32768, 1024, 1024, 5),
    _w8("gemm_w8_8192x8192x4096", 8192, 8192, 4096),
    _w4("gemm_w4_8192x8192x4096", 8192, 8192, 4096, "w4"),
    _w4("gemm_w4_m16_28672x16384", 16, 28672, 16384, "w4_few_rows"),
    _swiglu("swiglu_bf16_4096x11008x4096", 4096, 11008, 4096),
    _gram("gram_bf16_16384x4096", 16384, 4096),
    _pairwise("pairwise_f16_8192x8192x1024", 8192, 8192, 1024),
    _split_k("split_k_bf16_1024x1024x16384", 1024, 1024, 16384),
    _linear_attention("linear_attention_bf16_h256_t4096_d64", 256, 4096, 64),
    _embedding("embed_rmsnorm_bf16_32768x4096", 32768, 131072, 4096),
    _cross_entropy("cross_entropy_bf16_8192x128256", 8192, 128256),
    _logsumexp("logsumexp_argmax_f32_8192x32768", 8192, 32768),
    _masked_softmax("masked_softmax_f32_16384x8192", 16384, 8192),
    _residual_rmsnorm("residual_rmsnorm_bf16_16384x8192", 16384, 8192),
]


CASES += model_cases.cases(Case)


def _shape(id, case):
    """Sizes that nobody tuned for, each of which once lost: pitches that are no multiple of 128
    bytes, bad last waves, thin K, short sequences."""
    case.id, case.group, case.priority = id, "shape", 2
    return case


CASES += [_shape(f"shape_{m}x{n}x{k}", _gemm("", m, n, k)) for m, n, k in (
    (3000, 3000, 3000), (777, 2056, 1544), (9280, 512, 1272), (2208, 13984, 120),
    (704, 4320, 600), (705, 10472, 552), (2368, 1344, 1264), (200, 32000, 4096),
    (992, 784, 8128), (704, 3536, 9344), (32768, 4096, 7168))]
CASES += [_shape(f"shape_fa_b{b}_h{h}_s{s}_d{d}" + "_causal" * c, _attention("", s, d, c, h, h, b))
          for b, h, s, d, c in ((16, 16, 512, 64, True), (64, 12, 197, 64, False),
                                (8, 12, 1024, 64, False), (128, 16, 256, 128, True))]


def _product_of(id, kind, layout, m, n, k):
    case = _gemm(id, m, n, k, layout)
    if kind == "f16":
        case.kernel = f"std/matmul_f16.tile:{case.kernel.rpartition(':')[2]}_f16"
        case.tensors = [(name, "f16", dims, role) for name, _, dims, role in case.tensors]
    return case


def _product_e4m3(id, m, n, k):
    return Case(id, "product", "std/matmul_types.tile:gemm_e4m3",
                [("A", "e4m3", (m, k), "in"), ("B", "e4m3", (n, k), "in"),
                 ("C", "bf16", (m, n), "out")], {}, "product_e4m3", 2.0 * m * n * k, "e4m3")


def _products_batched(id, z, m, n, k):
    return Case(id, "product", "std/matmul_fused.tile:gemm_batched",
                [("A", "bf16", (z, m, k), "in"), ("B", "bf16", (z, n, k), "in"),
                 ("C", "bf16", (z, m, n), "out")], {}, "product", 2.0 * z * m * n * k, "bf16", 0,
                {"a_turned": False, "b_turned": False})


def _attention_of(id, b, h, g, s, length, d, causal):
    case = _attention(id, s, d, causal, h, g, b)
    case.tensors = [(x, t, (b, g, length, d) if x in "KV" else dims, role)
                    for x, t, dims, role in case.tensors]
    case.flops *= length / s
    case.peer = "attention_any"
    return case


def _row_of(id, kernel, r, c):
    file = "softmax" if "softmax" in kernel else "norm"
    return _rows(id, f"std/{file}.tile:{kernel}", "f32" if kernel == "softmax" else "bf16", r, c,
                 kernel.removesuffix("_bf16"), {"layernorm": ["gamma", "beta"],
                                                "rmsnorm": ["gamma"]}.get(kernel, []),
                 {"eps": 1e-5} if "norm" in kernel else None)


RANDOM = ("product", "attention", "row")


def drawn(kind, seed, count):
    """`count` cases that are in no list."""
    make = types.SimpleNamespace(product=_product_of, e4m3=_product_e4m3, batched=_products_batched,
                                 attention=_attention_of, row=_row_of)
    return random_cases.draw(make, kind, seed, count)


def by_id(id):
    for case in CASES:
        if case.id == id:
            return case
    return None
