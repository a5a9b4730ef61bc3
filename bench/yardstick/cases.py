"""The cases by stable id: one row each, data only.

An id is never reused for another shape; a new shape is a new row. FLOP and byte counts are the
task's (each input read once, each output written once, causal attention half), not the kernel's.
`kernel` None: the language or the library has no kernel for it yet, and `why` says what is missing.

SPDX-License-Identifier: Apache-2.0
"""

from dataclasses import dataclass, field

BYTES = {"bf16": 2, "f16": 2, "f32": 4, "e4m3": 1, "i8": 1}
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

    def bytes(self):
        total = 0
        for _, dtype, dims, role in self.tensors:
            n = BYTES[dtype]
            for d in dims:
                n *= d
            total += n * (2 if role == "inout" else 1)
        return total

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


def _rows(id, kernel, dtype, rows, columns, peer, vectors=(), values=None, priority=0):
    tensors = [("X", dtype, (rows, columns), "in")]
    tensors += [(v, "f32", (columns,), "in") for v in vectors]
    tensors += [("Y", dtype, (rows, columns), "out")]
    return Case(id, "row", kernel, tensors, values or {}, peer, 0.0, "bf16", priority)


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
                priority)


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
    _missing("fa_bwd_bf16_d128_s8192", "attention", "no backward kernel in the library", 0),
    _missing("fa_bwd_bf16_d128_s8192_causal", "attention", "no backward kernel in the library", 0),
    _gemm("gemm_bf16_m16_14336x4096", 16, 14336, 4096),
    _gemm("gemm_bf16_m64_14336x4096", 64, 14336, 4096),
    _gemm("gemm_bf16_m128_14336x4096", 128, 14336, 4096),
    _rows("rmsnorm_bf16_16384x4096_fwd", "std/norm.tile:rmsnorm", "bf16", 16384, 4096, "rmsnorm",
          ["gamma"], {"eps": 1e-5}),
    _missing("rmsnorm_bf16_16384x4096_fwdbwd", "row", "no backward kernel in the library", 0),
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
    _missing("gemm_fp8_block128_4096x7168x16384", "product", "no block-scaled kernel"),
    _missing("gemm_fp8_block128_m64_7168x16384", "product", "no block-scaled kernel"),
    _missing("grouped_fp8_8x4096x4096x7168", "product", "no grouped kernel"),
    _missing("grouped_bf16_64x512x4096x2048", "product", "no grouped kernel"),
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
    _missing("fa_fwd_fp8_d128_s8192", "attention", "no fp8 attention kernel"),
    _missing("fa_fwd_fp8_d128_s8192_causal", "attention", "no fp8 attention kernel"),
    _missing("fa_fwd_bf16_d192v128_s8192_causal", "attention", "head dims 64, 128 and 256 only"),
    _missing("decode_gqa_bf16_b64_s8192", "attention", "no split over keys"),
    _missing("decode_gqa_bf16_b64_s8192_paged64", "attention", "no paged kernel"),
    _missing("decode_mla_bf16_b128_h128_s4096", "attention", "no MLA kernel"),
    _missing("decode_mla_bf16_b32_h16_s8192", "attention", "no MLA kernel"),
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
]


def by_id(id):
    for case in CASES:
        if case.id == id:
            return case
    return None
