"""Cases of the group `model`, continued: what stdlib/models has beside the tasks of model_cases.py.

SPDX-License-Identifier: Apache-2.0
"""


def _products(make):
    m, n, k, r = 8192, 4096, 4096, 16
    yield make("lora_8192x4096x4096_r16", "std/models/adapters.tile:lora",
               [("X", "bf16", (m, k), "in"), ("W", "bf16", (n, k), "in"),
                ("A", "bf16", (r, k), "in"), ("B", "bf16", (n, r), "in"),
                ("Y", "bf16", (m, n), "out")], {"scale": 0.5}, "lora", 2.0 * m * (n + r) * k)
    of = "std/models/adapters.tile:lora_"
    yield make("lora_two_8192x4096x4096_r16", of + "outer",
               [("X", "bf16", (m, k), "in"), ("W", "bf16", (n, k), "in"),
                ("A", "bf16", (r, k), "in"), ("B", "bf16", (n, r), "in"),
                ("Y", "bf16", (m, n), "out"), ("low", "bf16", (m, r), "out")], {"scale": 0.5},
               "lora", 2.0 * m * (n + r) * k, touched={"low": 0},
               steps=[(of + "inner", ["X", "A", "low"], {"scale": 0.5}),
                      (of + "outer", ["X", "W", "low", "B", "Y"], {})])
    # Of a symmetric result half is counted; of a symmetric operand all of the product.
    yield make("syrk_8192x4096", "std/models/symmetric.tile:syrk",
               [("A", "bf16", (m, k), "in"), ("C", "bf16", (m, m), "out")], {}, "syrk",
               1.0 * m * m * k)
    yield make("symm_4096x8192", "std/models/symmetric.tile:symm",
               [("S", "bf16", (n, n), "in"), ("B", "bf16", (n, m), "in"),
                ("C", "bf16", (n, m), "out")], {}, "symm", 2.0 * n * n * m)
    yield make("complex_bf16_4096", "std/models/complex.tile:gemm_complex_bf16",
               [("A", "bf16", (2, n, n), "in"), ("B", "bf16", (2, n, n), "in"),
                ("C", "f32", (2, n, n), "out")], {"conjugate": False}, "complex", 8.0 * n ** 3)
    blocks = n // 64
    yield make("block_sparse_4096_quarter", "std/models/sparse.tile:block_sparse",
               [("X", "bf16", (m, n), "in"), ("W", "bf16", (blocks * blocks // 4, 64, 64), "in"),
                ("start", "i32", (blocks + 1,), "in"),
                ("column", "i32", (blocks * blocks // 4,), "in"), ("Y", "bf16", (m, n), "out")],
               {"N": n}, "block_sparse", 2.0 * m * n * n / 4, options={"unlike": ("cublas",)},
               fill={"start": ("integers", 0, 1), "column": ("integers", 0, 1)})
    for kind in ("gptq", "awq"):
        n = k = 8192
        weights = [("Wq", "u32", (k // 8, n) if kind == "gptq" else (k, n // 8), "in"),
                   ("scale", "f16", (k // 128, n), "in"),
                   ("zero", "u32", (k // 128, n // 8), "in")]
        fill = {"Wq": ("words",), "zero": ("words",), "scale": ("share",)}
        of = f"std/models/packed_weights.tile:gemm_{kind}"
        for m in (16, 4096):
            yield make(f"{kind}_m{m}_8192x8192", of,
                       [("X", "f16", (m, k), "in"), *weights, ("Y", "f16", (m, n), "out")], {},
                       kind, 2.0 * m * n * k, fill=fill)
        # Weights as plain numbers, then a plain product.
        yield make(f"{kind}_plain_m{m}_8192x8192", of,
                   [("A", "f16", (m, k), "in"), *weights, ("C", "f16", (m, n), "out"),
                    ("B", "f16", (k, n), "out")], {}, kind, 2.0 * m * n * k, fill=fill,
                   touched={"B": 0},
                   steps=[(f"std/models/plain_weights.tile:plain_{kind}",
                           ["Wq", "scale", "zero", "B"], {}),
                          ("std/matmul_f16.tile:gemm_nn_f16", [*"ABC"], {})])
    r, k, v = 8192, 4096, 128256
    part, per = ("f32", (2, r), "out"), ("f32", (r,), "out")
    of = "std/models/linear_loss.tile:"
    yield make("linear_loss_8192x4096x128256", of + "linear_loss",
               [("X", "bf16", (r, k), "in"), ("W", "bf16", (v, k), "in"),
                ("label", "i32", (r,), "in"), ("part", *part), ("at", *part), ("lse", *per),
                ("loss", *per)], {}, "linear_loss", 2.0 * r * k * v,
               steps=[(of + "linear_loss", ["X", "W", "label", "part", "at"], {}),
                      (of + "join_parts", ["part", "at", "label", "lse", "loss"], {})],
               fill={"label": ("integers", 0, v)})


def _attention(make, b=4, h=64, g=8, s=4096, d=64):
    yield make("attention_sinks_d64_s4096", "std/models/attention_sinks.tile:attention_sinks",
               [("Q", "bf16", (b, h, s, d), "in"), ("K", "bf16", (b, g, s, d), "in"),
                ("V", "bf16", (b, g, s, d), "in"), ("sink", "f32", (h,), "in"),
                ("O", "bf16", (b, h, s, d), "out")], {"scale": d ** -0.5, "window": 0},
               "attention_sinks", 2.0 * b * h * s * s * d, options={"unlike": ("cudnn",)})


def _sequences(make):
    b, t, h = 8, 4096, 32

    def heads(names, d, way="in"):
        return [(x, "bf16", (b, h, t, d), way) for x in names]
    d = 64
    yield make("retention_8x32x4096_d64", "std/models/retention.tile:retention",
               heads("QKV", d) + [("decay", "f32", (h,), "in")] + heads("O", d, "out"), {},
               "retention", 2.0 * b * h * t * (2 * 64 * d + 2 * d * d), fill={"decay": ("decay",)})
    d = 128
    gates = [(x, "f32", (b, h, t), "in") for x in ("beta", "decay")]
    yield make("gated_delta_8x32x4096_d128", "std/models/delta.tile:gated_delta",
               heads("QKV", d) + gates + heads("O", d, "out"), {}, "gated_delta",
               2.0 * b * h * t * (4 * 64 * d + 3 * d * d),
               fill={"beta": ("share",), "decay": ("decay",), "K": ("small",)})
    of = "std/models/delta_chunks.tile:gated_delta_"
    yield make("gated_delta_chunks_8x32x4096_d128", of + "states",
               heads("QKV", d) + gates + heads("WU", d, "out") + [("G", "f32", (b, h, t), "out")]
               + heads("O", d, "out"), {}, "gated_delta_chunks",
               2.0 * b * h * t * (4 * 64 * d + 3 * d * d),
               fill={"beta": ("share",), "decay": ("decay",), "K": ("small",)},
               touched={"W": 0, "U": 0, "G": 0},
               steps=[(of + "parts", ["K", "V", "beta", "decay", *"WUG"], {}),
                      (of + "states", [*"QKWUGO"], {})])
    d = 64
    state = ("f32", (b, h, d, d))
    yield make("rwkv7_8x4096x32x64", "std/models/rwkv7.tile:rwkv7",
               [(x, "bf16", (b, t, h, d), "in") for x in "RWKVAB"]
               + [("state_in", *state, "in"), ("Y", "bf16", (b, t, h, d), "out"),
                  ("state_out", *state, "out")], {}, "rwkv7",
               fill={"A": ("small",), "B": ("small",)})
    of, each, chunk = "std/models/rwkv7_chunks.tile:rwkv7_", (b, t, h, d), (b, h, t // 64, d, d)
    yield make("rwkv7_chunks_8x4096x32x64", of + "states",
               [(x, "bf16", each, "in") for x in "RWKVAB"] + [("state_in", *state, "in")]
               + [(x, "bf16", each, "out") for x in ("P", "U", "Q", "Y0", "Y")]
               + [(x, "bf16", chunk, "out") for x in "MS"]
               + [("total", "f32", chunk[:-1], "out"), ("state_out", *state, "out")], {},
               "rwkv7_chunks",
               fill={"A": ("small",), "B": ("small",), "W": ("decay",)},
               touched=dict.fromkeys(("P", "U", "Q", "Y0", "M", "S", "total"), 0),
               steps=[(of + "parts", ["W", "K", "V", "A", "B", "P", "U"], {}),
                      (of + "chunks", [*"RWKVBPUQ", "Y0", "M", "S", "total"], {}),
                      (of + "states", ["Q", "Y0", "M", "S", "total", "state_in", "Y", "state_out"],
                       {})])
    c, n = 4096, 16
    each = ("f32", (c,), "in")
    yield make("selective_scan_8x4096x4096", "std/models/selective.tile:selective_scan",
               [("X", "bf16", (b, t, c), "in"), ("dt", "bf16", (b, t, c), "in"),
                ("A_log", "f32", (c, n), "in"), ("Bm", "bf16", (b, t, n), "in"),
                ("Cm", "bf16", (b, t, n), "in"), ("bias", *each), ("skip", *each),
                ("Y", "bf16", (b, t, c), "out")], {}, "selective_scan", fill={"A_log": ("share",)})
    yield make("fft_16384x4096", "std/models/fft.tile:fft",
               [("X", "f16", (2, 16384, 64, 64), "in"), ("Y", "f16", (2, 16384, 64, 64), "out")],
               {}, "fft")


def _sequences_back(make, b=8, t=4096):
    """Gradients; what a backward pass keeps for itself is not counted."""
    c, n, parts, pieces = 4096, 16, 4096 // 32, t // 16
    x, each = ("bf16", (b, t, c)), ("f32", (b, c))
    of = "std/models/selective_backward.tile:selective_"
    yield make("selective_scan_back_8x4096x4096", of + "scan_back",
               [(name, *x, "in") for name in ("X", "dt", "dY")]
               + [("A_log", "f32", (c, n), "in"), ("Bm", "bf16", (b, t, n), "in"),
                  ("Cm", "bf16", (b, t, n), "in"), ("bias", "f32", (c,), "in"),
                  ("skip", "f32", (c,), "in"), ("H", "f32", (b, pieces, c, n), "out"),
                  ("work", "f32", (b, 16, c, n), "inout"), ("dX", *x, "out"), ("ddt", *x, "out"),
                  ("dA_log", "f32", (b, c, n), "out"), ("dB", "f32", (parts, b, t, n), "out"),
                  ("dC", "f32", (parts, b, t, n), "out"), ("dbias", *each, "out"),
                  ("dskip", *each, "out")], {}, "selective_back",
               fill={"A_log": ("share",)},
               touched={"H": 0, "work": 0, "dB": b * t * n, "dC": b * t * n},
               steps=[(of + "states", ["X", "dt", "A_log", "Bm", "bias", "H"], {}),
                      (of + "scan_back", ["X", "dt", "A_log", "Bm", "Cm", "bias", "skip", "dY", "H",
                                          "work", "dX", "ddt", "dA_log", "dB", "dC", "dbias",
                                          "dskip"], {})])
    h, d = 32, 64
    each, state = ("bf16", (b, t, h, d)), ("f32", (b, h, d, d))
    grads = [("d" + x, *each, "out") for x in "RWKVAB"] + [("dstate_in", *state, "out")]
    of = "std/models/rwkv7_backward.tile:rwkv7_"
    yield make("rwkv7_back_8x4096x32x64", of + "back",
               [(x, *each, "in") for x in (*"RWKVAB", "dY")]
               + [("state_in", *state, "in"), ("dstate_out", *state, "in"),
                  ("states", "f32", (b, h, pieces, d, d), "out"),
                  ("work", "f32", (b, h, 16, d, d), "inout")] + grads, {}, "rwkv7_back",
               fill={"A": ("small",), "B": ("small",)}, touched={"states": 0, "work": 0},
               steps=[(of + "history", [*"WKVAB", "state_in", "states"], {}),
                      (of + "back", [*"RWKVAB", "dY", "states", "work", "dstate_out"]
                       + [x[0] for x in grads], {})])
    of, fore = "std/models/rwkv7_chunks_backward.tile:rwkv7_", "std/models/rwkv7_chunks.tile:rwkv7_"
    chunk, ends = (b, h, t // 64, d, d), (b, h, t // 64 + 1, d, d)
    made = ("P", "U", "Q", "Y0", "sa", "dsa")
    yield make("rwkv7_chunks_back_8x4096x32x64", of + "outer",
               [(x, *each, "in") for x in (*"RWKVAB", "dY")]
               + [("state_in", *state, "in"), ("dstate_out", *state, "in")]
               + [(x, *each, "out") for x in made]
               + [(x, "bf16", chunk, "out") for x in ("M", "S", "behind")]
               + [("before", "bf16", ends, "out"), ("total", "f32", chunk[:-1], "out")] + grads, {},
               "rwkv7_chunks_back", options={"tolerance": 0.05},  # dW: 3.3e-2, others 5e-3
               fill={"A": ("small",), "B": ("small",), "W": ("decay",)},
               touched=dict.fromkeys((*made, "M", "S", "behind", "before", "total"), 0),
               steps=[(fore + "parts", [*"WKVAB", "P", "U"], {}),
                      (fore + "chunks", [*"RWKVBPUQ", "Y0", "M", "S", "total"], {}),
                      (of + "before", ["P", "U", "M", "S", "total", "state_in", "before", "sa"],
                       {}),
                      (of + "behind", ["Q", "M", "total", "dY", "dstate_out", "behind",
                                       "dstate_in"], {}),
                      (of + "rows", [*"RWKAB", "dY", "behind", "dsa", "dV"], {}),
                      (of + "outer", [*"RWKVAB", "sa", "before", "behind", "dsa", "dY", "dR", "dW",
                                      "dK", "dA", "dB"], {})])
    d, chunks = 128, t // 64
    each, gate = ("bf16", (b, h, t, d)), ("f32", (b, h, t))
    kept = ("bf16", (b, h, chunks, d, d), "out")
    of = "std/models/delta_backward.tile:gated_delta_"
    yield make("gated_delta_back_8x32x4096_d128", of + "grads",
               [(x, *each, "in") for x in (*"QKV", "dO")]
               + [(x, *gate, "in") for x in ("beta", "decay")]
               + [(x, *each, "out") for x in ("W", "U", "u", "du", "dr")] + [("G", *gate, "out")]
               + [("S", *kept), ("dS", *kept)]
               + [(x, *each, "out") for x in ("dQ", "dK", "dV")]
               + [(x, "f32", (4, b, h, t), "out") for x in ("dbeta", "ddecay")], {},
               "gated_delta_back", 2.0 * b * h * t * (14 * 64 * d + 10 * d * d),
               fill={"beta": ("share",), "decay": ("decay",), "K": ("small",)},
               touched=dict.fromkeys(("W", "U", "u", "du", "dr", "G", "S", "dS"), 0)
               | dict.fromkeys(("dbeta", "ddecay"), b * h * t),
               steps=[("std/models/delta_chunks.tile:gated_delta_parts",
                       ["K", "V", "beta", "decay", *"WUG"], {}),
                      (of + "history", [*"KWUGSu"], {}),
                      (of + "back_states", [*"QKWG", "dO", "dS", "du"], {}),
                      (of + "rows", ["K", "beta", "decay", "du", "dr", "dV"], {}),
                      (of + "grads", [*"QKV", "beta", "decay", "S", "dS", "dO", "u", "dr", "dQ",
                                      "dK", "dbeta", "ddecay"], {})])
    h, p, n = 80, 64, 128
    yield make("faded_sum_8x4096x80x64_n128", "std/models/ssd_backward.tile:faded_sum_f32",
               [("Q", "bf16", (b, t, 1, n), "in"), ("K", "bf16", (b, t, 1, n), "in"),
                ("V", "bf16", (b, t, h, p), "in"), ("fade", "f32", (b, h, t), "in"),
                ("O", "f32", (b, t, h, p), "out")], {}, "faded_sum",
               2.0 * b * h * t * (32 * (n + p) + 2 * n * p), fill={"fade": ("decay",)})


def _images(make, n=32):
    big, small = (n, 112, 112, 64), (n, 56, 56, 64)
    yield make("max_pool_32x112x112x64", "std/models/pooling.tile:max_pool",
               [("X", "bf16", big, "in"), ("Y", "bf16", small, "out"), ("at", "u8", small, "out")],
               {}, "max_pool")
    yield make("max_pool_back_32x112x112x64", "std/models/pooling.tile:max_pool_back",
               [("dY", "bf16", small, "in"), ("at", "u8", small, "in"), ("dX", "bf16", big, "out")],
               {}, "max_pool_back", fill={"at": ("integers", 0, 9)})
    x = ("bf16", (n, 56, 56, 256))
    for kernel in ("depthwise", "depthwise_3x3"):
        yield make(f"{kernel}_32x56x56x256", f"std/models/conv_more.tile:{kernel}",
                   [("X", *x, "in"), ("F", "f32", (3, 3, 256), "in"), ("Y", *x, "out")], {},
                   "depthwise")
    x = ("bf16", (n, 56, 56, 4, 64))
    yield make("conv2d_grouped_32x56x56_4x64", "std/models/conv_more.tile:conv2d_grouped",
               [("X", *x, "in"), ("F", "bf16", (4, 3, 3, 64, 64), "in"), ("Y", *x, "out")], {},
               "conv2d_grouped", 2.0 * n * 56 * 56 * 256 * 64 * 9)
    yield make("conv1d_32x3000x512_by2", "std/models/conv_more.tile:conv1d",
               [("X", "bf16", (n, 3000, 512), "in"), ("F", "bf16", (3, 512, 512), "in"),
                ("Y", "bf16", (n, 1500, 512), "out")], {"D": 2, "P": 1}, "conv1d_strided",
               2.0 * n * 1500 * 512 * 512 * 3)
    x = ("bf16", (8, 4096, 8192))
    yield make("causal_conv_8x4096x8192", "std/models/conv_more.tile:causal_conv",
               [("X", *x, "in"), ("F", "f32", (4, 8192), "in"), ("bias", "f32", (8192,), "in"),
                ("Y", *x, "out")], {}, "causal_conv")
    x, per = ("bf16", (n, 4096, 512)), ("f32", (n, 32), "out")
    yield make("group_norm_32x4096x32x16", "std/models/group_norm.tile:group_norm",
               [("X", *x, "in"), ("gamma", "f32", (512,), "in"), ("beta", "f32", (512,), "in"),
                ("Y", *x, "out"), ("mean", *per), ("inv", *per)], {"eps": 1e-5}, "group_norm")
    yield make("group_norm_dx_32x4096x32x16", "std/models/group_norm.tile:group_norm_dx",
               [("X", *x, "in"), ("dY", *x, "in"), ("gamma", "f32", (512,), "in"),
                ("mean", *per[:2], "in"), ("inv", *per[:2], "in"), ("dX", *x, "out")], {},
               "group_norm_dx", fill={"inv": ("share",)})


def _others(make):
    for rows, columns in ((64, 131072), (1024, 131072)):  # clusters keep them
        x = ("bf16", (rows, columns))
        yield make(f"softmax_bf16_{rows}x{columns}", "std/softmax.tile:softmax_bf16",
                   [("X", *x, "in"), ("Y", *x, "out")], {}, "softmax")
    z = ("bf16", (8192, 28672))
    yield make("gelu_back_8192x28672", "std/models/epilogue_back.tile:gelu_back",
               [("Z", *z, "in"), ("bias", "f32", (28672,), "in"), ("dY", *z, "in"),
                ("dZ", *z, "out"), ("parts", "f32", (32, 28672), "out")], {}, "gelu_back")
    yield make("greedy_4096x128256", "std/models/sampling.tile:greedy",
               [("X", "f32", (4096, 128256), "in"), ("place", "i32", (4096,), "out")], {},
               "greedy")
    yield make("top_p_256x128256", "std/models/sampling.tile:top_p",
               [("X", "f32", (256, 128256), "in"), ("u", "f32", (256,), "in"),
                ("place", "i32", (256,), "out")], {"p": 0.9, "temperature": 0.5}, "top_p",
               fill={"u": ("share",)}, options={"unlike": ("torch",)})  # by likelihood
    of = "std/models/histogram.tile:"
    yield make("histogram_268m", of + "histogram",
               [("X", "u8", (1 << 28,), "in"), ("parts", "i32", (1056, 256), "inout"),
                ("count", "i32", (256,), "out")], {}, "histogram",
               steps=[(of + "histogram", ["X", "parts"], {}),
                      (of + "histogram_sum", ["parts", "count"], {})],
               fill={"X": ("integers", 0, 256), "parts": ("integers", 0, 1)})
    yield make("swap_middle_8x4096x32x128", "std/models/permute.tile:swap_middle_bf16",
               [("X", "bf16", (8, 4096, 32, 128), "in"), ("Y", "bf16", (8, 32, 4096, 128), "out")],
               {}, "swap_middle")
    yield make("rotate_left_1024x64x1024", "std/models/permute.tile:rotate_left_f32",
               [("X", "f32", (1024, 64, 1024), "in"), ("Y", "f32", (64, 1024, 1024), "out")], {},
               "rotate_left")
    small = ("f32", (4096, 64, 64))
    yield make("triangular_4096x64x64", "std/models/solve.tile:triangular_solve",
               [("L", *small, "in"), ("B", *small, "in"), ("X", *small, "out")], {"unit": True},
               "triangular", fill={"L": ("small",)})
    yield make("cholesky_4096x64", "std/models/solve.tile:cholesky",
               [("A", *small, "in"), ("L", *small, "out")], {"shift": 32.0}, "cholesky")
    yield make("qr_4096x64x64", "std/models/solve.tile:qr",
               [("A", *small, "in"), ("Q", *small, "out"), ("R", *small, "out")], {}, "qr")


def cases(make):
    return [case for part in (_products, _attention, _sequences, _sequences_back, _images, _others)
            for case in part(make)]
