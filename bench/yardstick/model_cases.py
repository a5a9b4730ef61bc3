"""Cases of the group `model`: kernels of stdlib/models at sizes of real models.

A task of several kernels (attention's backward, decoding) is one case: its steps run one after the
other. What a size does not fit in a table row of `cases.py` is the task's data: lengths, offsets,
pieces; model_peers.py prepares it.

SPDX-License-Identifier: Apache-2.0
"""

import library_cases


def _backward(make, d, s, causal, b, h):
    """Flash attention's count: five products where the forward has two."""
    q, rows = (b, h, s, d), (b, h, s)
    of = "std/models/attention_backward.tile:attention_"
    values = {"scale": d ** -0.5, "causal": causal}
    return make(f"fa_bwd_bf16_d{d}_s{s}" + "_causal" * causal, of + "dkdv",
                [(x, "bf16", q, "in") for x in ("Q", "K", "V", "O", "dO")]
                + [("LSE", "f32", rows, "in"), ("delta", "f32", rows, "out")]
                + [(x, "bf16", q, "out") for x in ("dK", "dV", "dQ")], values,
                "attention_backward", 10.0 * b * h * s * s * d * (0.5 if causal else 1),
                steps=[(of + "delta", ["O", "dO", "delta"], {}),
                       (of + "dkdv", ["Q", "K", "V", "dO", "LSE", "delta", "dK", "dV"], values),
                       (of + "dq", ["Q", "K", "V", "dO", "LSE", "delta", "dQ"], values)],
                options={"causal": causal})


def _backward_adding(make, d, s, causal, b, h):
    """The same with dQ added up in memory, as the peer does: five products."""
    q, rows = (b, h, s, d), (b, h, s)
    of = "std/models/attention_backward.tile:attention_"
    values = {"scale": d ** -0.5, "causal": causal}
    return make(f"fa_bwd_adding_bf16_d{d}_s{s}" + "_causal" * causal, of + "dqkv",
                [(x, "bf16", q, "in") for x in ("Q", "K", "V", "O", "dO")]
                + [("LSE", "f32", rows, "in"), ("delta", "f32", rows, "out"),
                   ("dQ32", "f32", q, "out")]
                + [(x, "bf16", q, "out") for x in ("dK", "dV", "dQ")], values,
                "attention_backward_adding", 10.0 * b * h * s * s * d * (0.5 if causal else 1),
                steps=[(of + "begin", ["O", "dO", "delta", "dQ32"], {}),
                       (of + "dqkv", ["Q", "K", "V", "dO", "LSE", "delta", "dQ32", "dK", "dV"],
                        values),
                       (of + "end", ["dQ32", "dQ"], {"scale": d ** -0.5})],
                options={"causal": causal})


def _decode(make, id, b, h, g, length, d, splits, page=0):
    """Bytes decide: keys and values once."""
    part, lse = (b, g, splits, h // g, d), (b, g, splits, h // g)
    of, q = "std/models/decode.tile:", (b, g, h // g, d)
    tensors = [("Q", "bf16", q, "in")]
    if page:
        pages = b * length // page
        tensors += [(x, "bf16", (pages, page, g, d), "in") for x in "KV"]
        tensors += [("table", "i32", (b, length // page), "in")]
    else:
        tensors += [(x, "bf16", (b, g, length, d), "in") for x in "KV"]
    tensors += [("length", "i32", (b,), "in"), ("part", "f32", part, "out"),
                ("lse", "f32", lse, "out"), ("O", "bf16", q, "out")]
    first = ["Q", "K", "V"] + ["table"] * bool(page) + ["length", "part", "lse"]
    kernel = of + ("decode_paged" if page else "decode")
    return make(id, kernel, tensors, {"scale": d ** -0.5},
                "decode_paged" if page else "decode", 4.0 * b * h * length * d,
                steps=[(kernel, first, {"scale": d ** -0.5}),
                       (of + "decode_combine", ["part", "lse", "O"], {})],
                fill={"length": ("integers", length, length + 1),
                      **({"table": ("distinct", b * length // page)} if page else {})})


def _fp8_forward(make, s, causal, d=128, h=64, g=8):
    """Values with their keys along the last dim; scales are numbers."""
    values = {"scale": d ** -0.5, "vscale": 1.0, "causal": causal}
    return make(f"fa_fwd_fp8_d{d}_s{s}" + "_causal" * causal,
                "std/models/attention_fp8.tile:attention_fp8",
                [("Q", "e4m3", (1, h, s, d), "in"), ("K", "e4m3", (1, g, s, d), "in"),
                 ("V", "e4m3", (1, g, d, s), "in"), ("O", "bf16", (1, h, s, d), "out")], values,
                "attention_fp8", 4.0 * h * s * s * d * (0.5 if causal else 1), "e4m3",
                # Attention on bf16; weights of 4 significant bits.
                options={"causal": causal, "unlike": ("cudnn",), "tolerance": 0.04})


def _latent(make, id, b, h, length, splits):
    """One latent of 512 and 64 numbers a key for all heads; bytes decide for few heads."""
    q, kv = (b, h, 576), (b, length, 576)
    of, values = "std/models/mla.tile:", {"scale": 192 ** -0.5}
    return make(id, of + "mla_decode",
                [("Q", "bf16", q, "in"), ("KV", "bf16", kv, "in"), ("length", "i32", (b,), "in"),
                 ("part", "f32", (b, splits, h, 512), "out"), ("lse", "f32", (b, splits, h), "out"),
                 ("O", "bf16", (b, h, 512), "out")], values, "mla_decode",
                2.0 * b * h * length * (576 + 512),
                steps=[(of + "mla_decode", ["Q", "KV", "length", "part", "lse"], values),
                       (of + "mla_combine", ["part", "lse", "O"], {})],
                fill={"length": ("integers", length, length + 1)})


def _prefill(make, s, h=16, e=192, d=128):
    return make(f"fa_fwd_bf16_d{e}v{d}_s{s}_causal", "std/models/mla.tile:mla_prefill",
                [("Q", "bf16", (1, h, s, e), "in"), ("K", "bf16", (1, h, s, e), "in"),
                 ("V", "bf16", (1, h, s, d), "in"), ("O", "bf16", (1, h, s, d), "out")],
                {"scale": e ** -0.5, "causal": True}, "attention_longer",
                2.0 * h * s * s * (e + d) * 0.5, options={"causal": True})


def _grouped(make, id, kernel, experts, rows, n, k, bm=128):
    """Each expert has as many rows: the peer is one batched product."""
    t, c = experts * rows, experts * rows // bm + experts + 1
    cuts = [("cut", "i32", (c,), "in"), ("group", "i32", (c - 1,), "in")]
    x, y, w = ("bf16", (t, k)), ("bf16", (t, n)), ("bf16", (experts, n, k))
    tensors = {
        "grouped": [("X", *x, "in"), ("W", *w, "in"), *cuts, ("Y", *y, "out")],
        "grouped_dx": [("dY", *y, "in"), ("W", *w, "in"), *cuts, ("dX", *x, "out")],
        "grouped_dw": [("dY", *y, "in"), ("X", *x, "in"),
                       ("offset", "i32", (experts + 1,), "in"), ("dW", *w, "out")]}[kernel]
    filled = ("cut", "group") if kernel != "grouped_dw" else ("offset",)
    return make(id, f"std/models/grouped.tile:{kernel}", tensors, {}, kernel, 2.0 * t * n * k,
                fill={x: ("integers", 0, 1) for x in filled},
                options={"experts": experts, "rows": rows, "bm": bm})


def _block_fp8(make, id, m, n, k):
    return make(id, "std/models/scaled.tile:gemm_block_fp8",
                [("A", "e4m3", (m, k), "in"), ("B", "e4m3", (n, k), "in"),
                 ("sa", "f32", (k // 128, m), "in"), ("sb", "f32", (n // 128, k // 128), "in"),
                 ("C", "bf16", (m, n), "out")], {}, "block_fp8", 2.0 * m * n * k, "e4m3",
                options={"unlike": ("cublaslt",)},  # a product without scales
                fill={"sa": ("positive",), "sb": ("positive",)})


def _weights8(make, id, m, n, k, wide=False):
    """`wide`: in two launches, weights as plain numbers and a plain product."""
    return make(id, "std/models/scaled.tile:gemm_w8a16",
                [("A", "bf16", (m, k), "in"), ("W", "i8", (n, k), "in"),
                 ("scale", "bf16", (k // 128, n), "in"), ("C", "bf16", (m, n), "out")]
                + [("B", "bf16", (n, k), "out")] * wide, {},
                "w8a16", 2.0 * m * n * k,
                fill={"W": ("integers", -127, 128), "scale": ("positive",)}, touched={"B": 0} if wide else {},
                steps=[("std/models/plain_weights.tile:plain_w8a16", ["W", "scale", "B"], {}),
                       ("std/matmul.tile:gemm", [*"ABC"], {})] * wide)


def _weights4(make, id, m, n, k, wide=False):
    kb = k // 128
    return make(id, "std/models/scaled.tile:gemm_w4a16",
                [("A", "bf16", (m, k) if wide else (m, kb, 128), "in"),
                 ("W", "u8", (n, kb, 64), "in"),
                 ("scale", "bf16", (kb, n), "in"), ("zero", "u8", (kb, n), "in"),
                 ("C", "bf16", (m, n), "out")] + [("B", "bf16", (n, k), "out")] * wide, {},
                "w4a16", 2.0 * m * n * k,
                fill={"W": ("integers", 0, 256), "zero": ("integers", 0, 16),
                      "scale": ("positive",)}, touched={"B": 0} if wide else {},
                steps=[("std/models/plain_weights.tile:plain_w4a16", ["W", "scale", "zero", "B"],
                        {}), ("std/matmul.tile:gemm", [*"ABC"], {})] * wide)


def _conv2d(make, id, kernel, n, h, w, i, o, r=3):
    x, y, f = ("bf16", (n, h, w, i)), ("bf16", (n, h, w, o)), ("bf16", (r, r, o, i))
    tensors = {"conv2d": [("X", *x, "in"), ("F", *f, "in"), ("Y", *y, "out")],
               "conv2d_dx": [("dY", *y, "in"), ("F", *f, "in"), ("dX", *x, "out")],
               "conv2d_dw": [("dY", *y, "in"), ("X", *x, "in"), ("dF", *f, "out")]}[kernel]
    return make(id, f"std/models/conv2d.tile:{kernel}", tensors, {}, kernel,
                2.0 * n * h * w * i * o * r * r)


def _rows(make, id, kernel, tensors, peer, values=None, **more):
    return make(id, f"std/models/{kernel}", tensors, values or {}, peer, **more)


def _norms_and_losses(make):
    r, c = 16384, 4096
    x, per = ("bf16", (r, c)), ("f32", (r,))
    gamma, yes = ("gamma", "f32", (c,), "in"), ("positive",)
    yield _rows(make, "rmsnorm_train_16384x4096", "norm_backward.tile:rmsnorm_train",
                [("X", *x, "in"), gamma, ("Y", *x, "out"), ("inv", *per, "out")], "rmsnorm_train",
                {"eps": 1e-5}, fill={"gamma": yes})
    yield _rows(make, "rmsnorm_dx_16384x4096", "norm_backward.tile:rmsnorm_dx",
                [("X", *x, "in"), ("dY", *x, "in"), gamma, ("inv", *per, "in"), ("dX", *x, "out")],
                "rmsnorm_dx", fill={"gamma": yes, "inv": yes})
    yield _rows(make, "rmsnorm_dgamma_16384x4096", "norm_backward.tile:rmsnorm_dgamma",
                [("X", *x, "in"), ("dY", *x, "in"), ("inv", *per, "in"),
                 ("parts", "f32", (264, c), "out")], "rmsnorm_dgamma", fill={"inv": yes})
    yield _rows(make, "layernorm_dx_16384x4096", "norm_backward.tile:layernorm_dx",
                [("X", *x, "in"), ("dY", *x, "in"), gamma, ("mean", *per, "in"),
                 ("inv", *per, "in"), ("dX", *x, "out")], "layernorm_dx",
                fill={"gamma": yes, "inv": yes})
    yield _rows(make, "softmax_backward_16384x8192", "norm_backward.tile:softmax_backward",
                [(n, "bf16", (16384, 8192), way)
                 for n, way in (("Y", "in"), ("dY", "in"), ("dX", "out"))], "softmax_backward",
                fill={"Y": yes})
    big, few = ("bf16", (8192, 128256)), ("f32", (8192,))
    label = ("label", "i32", (8192,), "in")
    yield _rows(make, "cross_entropy_train_8192x128256", "loss.tile:cross_entropy",
                [("X", *big, "in"), label, ("loss", *few, "out"), ("lse", *few, "out")],
                "cross_entropy_train", fill={"label": ("integers", 0, 128256)})
    yield _rows(make, "cross_entropy_dx_8192x128256", "loss.tile:cross_entropy_dx",
                [("X", *big, "in"), label, ("lse", *few, "in"), ("g", *few, "in"),
                 ("dX", *big, "out")], "cross_entropy_dx",
                fill={"label": ("integers", 0, 128256), "lse": yes})
    yield _rows(make, "kl_divergence_8192x32768", "loss.tile:kl_divergence",
                [(n, "bf16", (8192, 32768), "in") for n in "XT"] + [("loss", *few, "out")],
                "kl_divergence")
    yield _rows(make, "top_k_65536x256", "loss.tile:top_k",
                [("X", "f32", (65536, 256), "in"), ("values", "f32", (65536, 8), "out"),
                 ("places", "i32", (65536, 8), "out")], "top_k")


def _flat(make):
    n = 1 << 27
    names = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "decay": 0.01, "scale": 1.0}
    state = [(x, "f32", (n,), "inout") for x in "pmv"]
    g, w = ("g", "bf16", (n,), "in"), ("W", "bf16", (n,), "out")
    yield make("adamw_134m", "std/models/optimiser.tile:adamw", [g, *state, w],
               {**names, "eps": 1e-8, "c1": 0.5, "c2": 0.5}, "adamw", fill={"v": ("positive",)})
    yield make("lion_134m", "std/models/optimiser.tile:lion", [g, *state[:2], w], names, "lion")
    yield make("squares_268m", "std/models/optimiser.tile:squares",
               [("g", "bf16", (2 * n,), "in"), ("parts", "f32", (1056,), "out")], {}, "squares")
    yield make("dropout_268m", "std/models/tokens.tile:dropout",
               [("X", "bf16", (4, n // 2), "in"), ("Y", "bf16", (4, n // 2), "out")],
               {"p": 0.1, "seed": 7, "stream": 1}, "dropout")


def _tokens(make):
    t, h, p = 16384, 64, 64
    x, at = ("bf16", (t, h, p, 2)), {"position": ("integers", 0, 16384)}
    turns = [(n, "f32", (16384, p), "in") for n in ("cos", "sin")]
    where = ("position", "i32", (t,), "in")
    yield make("rope_16384x64x128", "std/models/tokens.tile:rope",
               [("X", *x, "in"), *turns, where, ("Y", *x, "out")], {}, "rope", fill=at)
    yield make("rope_halves_16384x64x128", "std/models/tokens.tile:rope_halves",
               [("X", "bf16", (t, h, 2, p), "in"), *turns, where,
                ("Y", "bf16", (t, h, 2, p), "out")], {}, "rope_halves", fill=at)
    ids = ("id", "i32", (32768,), "in")
    yield make("embed_32768x4096", "std/models/tokens.tile:embed",
               [("table", "bf16", (131072, 4096), "in"), ids, ("Y", "bf16", (32768, 4096), "out")],
               {}, "embed", fill={"id": ("distinct", 131072)}, touched={"table": 32768 * 4096})
    yield make("embed_backward_32768x4096", "std/models/tokens.tile:embed_backward",
               [("dY", "bf16", (32768, 4096), "in"), ids,
                ("dtable", "f32", (131072, 4096), "inout")], {}, "embed_backward",
               fill={"id": ("distinct", 131072)}, touched={"dtable": 32768 * 4096})


def _sequences(make):
    yield make("scan_rows_16384x8192", "std/models/scan.tile:scan_rows",
               [("X", "f32", (16384, 8192), "in"), ("Y", "f32", (16384, 8192), "out")], {},
               "scan_rows")
    b, t, c = 16, 2048, 4096
    yield make("decay_scan_16x2048x4096", "std/models/scan.tile:decay_scan",
               [("a", "f32", (b, t, c), "in"), ("x", "f32", (b, t, c), "in"),
                ("start", "f32", (b, c), "in"), ("h", "f32", (b, t, c), "out")], {}, "decay_scan",
               fill={"a": ("share",)})
    b, t, h, p, g, n = 8, 4096, 80, 64, 1, 128
    heads, state = ("f32", (h,), "in"), ("f32", (b, h, n, p))
    yield make("ssd_8x4096x80x64_n128", "std/models/ssd.tile:ssd",
               [("X", "bf16", (b, t, h, p), "in"), ("dt", "f32", (b, h, t), "in"),
                ("bias", *heads), ("A_log", *heads), ("skip", *heads),
                ("Bm", "bf16", (b, t, g, n), "in"), ("Cm", "bf16", (b, t, g, n), "in"),
                ("state_in", *state, "in"), ("Y", "bf16", (b, t, h, p), "out"),
                ("state_out", *state, "out")], {}, "ssd",
               2.0 * b * h * t * (64 * n + 64 * p + 2 * n * p), fill={"A_log": ("share",)})


def cases(case):
    """`case`: the class of the table's rows."""
    def make(id, kernel, tensors, values, peer, flops=0.0, unit="bf16", **more):
        return case(id, "model", kernel, tensors, values, peer, flops, unit, 2, **more)

    out = [backward(make, d, s, causal, b, h)
           for backward in (_backward, _backward_adding) for d in (64, 128) for s, b, h in ((4096, 4, 16), (16384, 1, 16))
           for causal in (False, True)]
    out += [_decode(make, "decode_b32_h32_8_l4096", 32, 32, 8, 4096, 128, 4),
            _decode(make, "decode_b4_h32_8_l32768", 4, 32, 8, 32768, 128, 16),
            _decode(make, "decode_b32_h32_8_l4096_pages64", 32, 32, 8, 4096, 128, 4, 64),
            _decode(make, "decode_b32_h32_8_l4096_pages16", 32, 32, 8, 4096, 128, 4, 16),
            _fp8_forward(make, 8192, False), _fp8_forward(make, 8192, True), _prefill(make, 8192),
            _latent(make, "decode_mla_bf16_b32_h16_s8192", 32, 16, 8192, 4),
            _latent(make, "decode_mla_bf16_b128_h128_s4096", 128, 128, 4096, 1)]
    for kernel in ("grouped", "grouped_dx", "grouped_dw"):
        out += [_grouped(make, f"{kernel}_64x512x4096x2048", kernel, 64, 512, 4096, 2048),
                _grouped(make, f"{kernel}_8x4096x4096x7168", kernel, 8, 4096, 4096, 7168)]
    out += [_block_fp8(make, "block_fp8_4096x7168x16384", 4096, 7168, 16384),
            _block_fp8(make, "block_fp8_m64_7168x16384", 64, 7168, 16384)]
    for m in (16, 4096):
        out += [_weights8(make, f"w8a16_m{m}_28672x8192", m, 28672, 8192),
                _weights4(make, f"w4a16_m{m}_28672x16384", m, 28672, 16384)]
    out += [_weights8(make, "w8a16_plain_m4096_28672x8192", 4096, 28672, 8192, True),
            _weights4(make, "w4a16_plain_m4096_28672x16384", 4096, 28672, 16384, True)]
    out += [_conv2d(make, f"{kernel}_32x56x56_256", kernel, 32, 56, 56, 256, 256)
            for kernel in ("conv2d", "conv2d_dx", "conv2d_dw")]
    for part in (_norms_and_losses, _flat, _tokens, _sequences):
        out += part(make)
    return out + library_cases.cases(make)
