"""Kernels as operators of PyTorch: visible to torch.compile, with gradients from other kernels.

    gemm = tilec.torch.operator("mine::gemm", tilec.load("std/matmul.tile")["gemm"])
    C = gemm(A, B)

A backward kernel is bound by the names of its tensors: those of the forward kernel are what went in
and came out, `dX` is the gradient of X. Its `out` tensors must be gradients of inputs:

    kernel mul(X: f32[N], Y: f32[N], Z: out f32[N])
    kernel mul_backward(X: f32[N], Y: f32[N], dZ: f32[N], dX: out f32[N], dY: out f32[N])

    mul = tilec.torch.operator("mine::mul", k, backward=[kb])

Where torch has torch.library.custom_op (2.4 and later) this makes such an operator. An older torch
gets a torch.autograd.Function, which torch.compile does not see; a warning says so.

SPDX-License-Identifier: Apache-2.0
"""

import warnings

import torch

from ._torch_calls import _torch_dtype


def _inputs(kernel):
    """Parameters of the operator: all but results, dims and tunes."""
    return kernel._order


def _outs(kernel):
    return [p for p in kernel._tensors if p.direction == "out"]


def _schema(kernel, statics):
    """"(Tensor A, Tensor B, float scale) -> Tensor", in the words of torch.library."""
    words = []
    for p in _inputs(kernel):
        if p.name in statics:
            continue
        if p.kind == "tensor":
            words.append(f"Tensor {p.name}")
            continue
        kind = {"bool": "bool", "f": "float"}.get(
            p.dtype if p.dtype == "bool" else p.dtype[0], "int")
        if p.dtype.startswith(("bf", "tf", "e")):
            kind = "float"
        default = {"true": "True", "false": "False"}.get(p.default, p.default)
        words.append(f"{kind} {p.name}" + (f"={default}" if default else ""))
    results = ", ".join("Tensor" for _ in _outs(kernel))
    return f"({', '.join(words)}) -> " + (f"({results})" if len(_outs(kernel)) != 1 else "Tensor")


def _check_forward(kernel):
    for p in kernel._tensors:
        if p.direction == "inout":
            raise TypeError(f"`{p.name}` of {kernel.name} is inout: an operator's inputs stay as they "
                            "are; write an `out` tensor")
    if not _outs(kernel):
        raise TypeError(f"{kernel.name} has no `out` tensor: there is nothing to give back")


def _check_backward(kernel, backward):
    tensors = {p.name for p in kernel._tensors}
    inputs = {p.name for p in _inputs(kernel)}
    gradients = {"d" + p.name for p in _outs(kernel)}
    for b in backward:
        for p in b._tensors:
            if p.direction == "in" and p.name not in tensors | gradients:
                raise TypeError(f"`{p.name}` of {b.name} is neither a tensor of {kernel.name} nor a "
                                f"gradient of its results ({', '.join(sorted(gradients))})")
            if p.direction != "in" and (p.name[:1] != "d" or p.name[1:] not in inputs):
                raise TypeError(f"`{p.name}` of {b.name} is no gradient of an input of {kernel.name}: "
                                f"call it d followed by one of {', '.join(sorted(inputs))}")


def _fake_shapes(kernel, given):
    """Results by shape alone. Extents may be symbols: only + - * // and comparisons are used."""
    shapes = {n: v.shape for n, v in given.items() if isinstance(v, torch.Tensor)}
    names = {n: v for n, v in given.items() if not isinstance(v, (torch.Tensor, bool, float))}
    for p in kernel._tensors:
        for text, extent in zip(p.dims, shapes.get(p.name, ())):
            if text.isidentifier():
                names.setdefault(text, extent)
    for p in kernel.parameters:
        if p.name not in names and p.default.lstrip("-").isdigit():
            names[p.name] = int(p.default)
    like = next(v for v in given.values() if isinstance(v, torch.Tensor))
    made = [torch.empty(kernel._shape_of(p, names), device=like.device,
                        dtype=_torch_dtype(torch, p.dtype)) for p in _outs(kernel)]
    return made[0] if len(made) == 1 else tuple(made)


def _gradients(kernel, backward, saved, results, grads):
    """What each input's gradient is: by the kernels of `backward`, in order; each with what calls it by
    names."""
    known = dict(saved)
    known.update(zip((p.name for p in _outs(kernel)), results))
    for p, g in zip(_outs(kernel), grads):
        known["d" + p.name] = g if g is None else g.contiguous()
    made = {}
    for b, call in backward:
        given = {}
        for p in _inputs(b):
            value = known.get(p.name)
            if value is not None:
                given[p.name] = value
            elif p.kind == "tensor":
                raise RuntimeError(f"{b.name} needs `{p.name}`, of which no gradient came")
        out = call(given)
        for p, value in zip(_outs(b), out if isinstance(out, tuple) else (out,)):
            made[p.name[1:]] = value
    return made


def operator(name, kernel, backward=(), **statics):
    """The kernel as an operator `name` ("library::name"). `backward`: kernels that make gradients.
    `statics`: values of constants and tunes that are the same in every call, of the backward kernels
    too."""
    backward = list(backward) if isinstance(backward, (list, tuple)) else [backward]
    _check_forward(kernel)
    _check_backward(kernel, backward)
    names = [p.name for p in _inputs(kernel) if p.name not in statics]
    if hasattr(torch.library, "custom_op"):
        # torch.compile traces a backward pass, too: its kernels are operators like the forward one.
        calls = [(b, _backward_op(f"{name}_backward{i}", b, statics))
                 for i, b in enumerate(backward)]
        return _custom_op(name, kernel, calls, statics, names)
    warnings.warn(f"torch {torch.__version__} has no torch.library.custom_op: `{name}` is a function "
                  "with gradients, and torch.compile cannot see through it", stacklevel=2)
    calls = [(b, _plain_call(b, statics)) for b in backward]
    return _function(kernel, calls, statics, names)


def _own(kernel, statics):
    return {n: v for n, v in statics.items() if n in kernel._names}


def _plain_call(kernel, statics):
    return lambda given: kernel(**{**given, **_own(kernel, statics)})


def _backward_op(name, kernel, statics):
    statics = _own(kernel, statics)
    names = [p.name for p in _inputs(kernel) if p.name not in statics]
    op = _custom_op(name, kernel, [], statics, names)
    defaults = {"true": True, "false": False}

    def call(given):
        values = []
        for n in names:
            default = kernel._names[n].default
            if n not in given and not default:
                raise RuntimeError(f"{kernel.name} needs `{n}`, which the forward kernel has not")
            values.append(given[n] if n in given else defaults.get(default) if default in defaults
                          else float(default) if "." in default or "e" in default else int(default))
        return op(*values)

    return call


def _custom_op(name, kernel, backward, statics, names):
    def run(*args):
        return kernel(**dict(zip(names, args)), **statics)

    op = torch.library.custom_op(name, run, mutates_args=(), schema=_schema(kernel, statics))
    op.register_fake(lambda *args: _fake_shapes(kernel, {**dict(zip(names, args)), **statics}))
    if backward:
        def setup(ctx, inputs, output):
            results = output if isinstance(output, tuple) else (output,)
            ctx.values = {n: v for n, v in zip(names, inputs) if not isinstance(v, torch.Tensor)}
            ctx.tensors = [n for n, v in zip(names, inputs) if isinstance(v, torch.Tensor)]
            ctx.save_for_backward(*[v for v in inputs if isinstance(v, torch.Tensor)], *results)

        def gradient(ctx, *grads):
            count = len(ctx.tensors)
            saved = {**ctx.values, **dict(zip(ctx.tensors, ctx.saved_tensors[:count]))}
            made = _gradients(kernel, backward, saved, ctx.saved_tensors[count:], grads)
            return tuple(made.get(n) for n in names)

        op.register_autograd(gradient, setup_context=setup)
    return op


def _function(kernel, backward, statics, names):
    class Run(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            given = dict(zip(names, args))
            with torch.no_grad():
                out = kernel(**given, **statics)
            results = out if isinstance(out, tuple) else (out,)
            ctx.values = {n: v for n, v in given.items() if not isinstance(v, torch.Tensor)}
            ctx.tensors = [n for n, v in given.items() if isinstance(v, torch.Tensor)]
            ctx.save_for_backward(*[given[n] for n in ctx.tensors], *results)
            return out

        @staticmethod
        def backward(ctx, *grads):
            if not backward:
                raise RuntimeError(f"{kernel.name} has no backward kernel")
            count = len(ctx.tensors)
            saved = {**ctx.values, **dict(zip(ctx.tensors, ctx.saved_tensors[:count]))}
            made = _gradients(kernel, backward, saved, ctx.saved_tensors[count:], grads)
            return tuple(made.get(n) for n in names)

    def call(*args, **kwargs):
        given = dict(zip(names, args), **kwargs)
        order = [given[n] for n in names if n in given]
        return Run.apply(*order)

    return call
