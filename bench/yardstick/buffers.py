"""Buffers of a case: filled, spoilt before a check, put back; and what several peers are made of.

Whatever a launch leaves unwritten must show: outputs hold NaN, or the least integer, before it.

SPDX-License-Identifier: Apache-2.0
"""

import math

import torch
import torch.nn.functional as F

TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i8": torch.int8,
         "i32": torch.int32, "u8": torch.uint8, "u32": torch.uint32,
         "e4m3": torch.float8_e4m3fn}


def _spoil(t):
    t.fill_(float("nan") if t.dtype.is_floating_point else torch.iinfo(t.dtype).min)


def _filled(dtype, dims, how, generator):
    kind, *numbers = how
    if kind == "integers":
        return torch.randint(*numbers, dims, dtype=TORCH[dtype], device="cuda",
                             generator=generator)
    if kind == "distinct":
        mixed = torch.randperm(*numbers, device="cuda", generator=generator)
        return mixed[:math.prod(dims)].to(TORCH[dtype]).view(dims)
    if kind == "words":
        some = torch.randint(-1 << 31, 1 << 31, dims, device="cuda", generator=generator)
        return some.to(torch.int32).view(TORCH[dtype])
    t = torch.empty(dims, dtype=torch.float32 if dtype == "e4m3" else TORCH[dtype], device="cuda")
    if kind == "share":
        return t.uniform_(generator=generator).to(TORCH[dtype])
    t.normal_(generator=generator)
    if kind == "positive":
        t.abs_().add_(0.5)
    elif kind == "small":
        t.mul_(0.08)
    elif kind == "decay":
        t.abs_().mul_(-0.03)
    return t.to(TORCH[dtype])


def make_tensors(case, generator):
    """Random inputs, random values to add to, spoilt outputs."""
    out = {}
    for name, dtype, dims, role in case.tensors:
        if role == "out":
            t = torch.empty(dims, dtype=TORCH[dtype], device="cuda")
            _spoil(t)
        else:
            t = _filled(dtype, dims, case.fill.get(name, ("normal",)), generator)
        out[name] = t
    return out


def results(case, tensors):
    """What a launch writes, in the order of the table."""
    return [tensors[name] for name, _, _, role in case.tensors if role != "in"]


def start_of(case, tensors):
    """A copy of what launches add to."""
    return {name: tensors[name].clone() for name, _, _, role in case.tensors if role == "inout"}


def reset(case, tensors, start):
    """As in front of the first launch."""
    for name, _, _, role in case.tensors:
        if role == "out":
            _spoil(tensors[name])
        elif role == "inout":
            tensors[name].copy_(start[name])


def compiled(function):
    """Through torch.compile, or a failure that the table shows."""
    return torch.compile(function, dynamic=False)


def copy(t, case):
    """A peer that copies as many bytes as the case must move, by a kernel: a large memcpy in a
    graph was seen at 2.8 TB/s where kernels (and a memcpy outside) move 4.2 on an H200."""
    source = torch.randn(case.bytes() // 8, device="cuda")
    target = torch.empty_like(source)
    return lambda: torch.mul(source, 1.0, out=target)


def gated(x, gate, up):
    """A peer's gated layer: both products as one, then silu and the product in one kernel."""
    def peer(t, case):
        both, n = torch.cat([t[gate], t[up]]), t[gate].shape[0]
        tail = compiled(lambda y: F.silu(y[:, :n]) * y[:, n:])
        return lambda: tail(t[x] @ both.mT)
    return peer
