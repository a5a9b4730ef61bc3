"""Calls with torch tensors: their memory is used as it is, on torch's current stream. A call like one
before is found by the tensors' addresses, shapes and types alone. torch is never imported from
here.

SPDX-License-Identifier: Apache-2.0
"""

import sys

from ._arrays import View
from ._launch import device

_KEPT = 4096  # calls; then all are forgotten

_TORCH_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64",
                "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
                "bool": "bool", "tf32": "float32", "u16": "uint16", "u32": "uint32",
                "u64": "uint64", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
                "e2m1x2": "float4_e2m1fn_x2", "ue8m0": "float8_e8m0fnu", "ue4m3": "uint8"}


def _torch_of(value):
    """torch, if `value` is a tensor of it; it is never imported from here."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def _torch_dtype(torch, dtype):
    """bytes where this torch has no name for it"""
    name = _TORCH_NAMES[dtype]
    return getattr(torch, name) if hasattr(torch, name) else torch.uint8


def _torch_dtypes(torch):
    return {getattr(torch, name): dtype for dtype, name in reversed(list(_TORCH_NAMES.items()))
            if hasattr(torch, name)}


class TorchCalls:
    """What a Kernel does with torch tensors; the rest of it is in _kernel.py."""

    def _call_again(self, args, kwargs):
        """(True, results) if torch tensors on a GPU were given like this before. An address says which
        device it is of, so that a key needs none."""
        torch = sys.modules["torch"]
        tensor = torch.Tensor
        key, made = [], None
        for a in args:
            if isinstance(a, tensor):
                key += (a.data_ptr(), a.shape, a.stride(), a.dtype)
            else:
                key += (a, type(a))
        for name, a in kwargs.items():
            if isinstance(a, tensor):
                key += (name, a.data_ptr(), a.shape, a.stride(), a.dtype)
            else:
                key += (name, a, type(a))
        for name in self._out_names:
            if name not in kwargs:
                made = self._results_again(torch, args, kwargs)
                if made is None:
                    return False, None
                for n, out in made.items():
                    key += (n, out.data_ptr(), out.shape, out.stride(), out.dtype)
                break
        call = self._torch_calls.get(tuple(key))
        if call is None:
            return False, None
        bound, device_, index = call
        stream = self._raw_stream(torch, index)
        self._launch(bound.handle, device_.stream(stream) if stream else 0)
        return True, self._results({**kwargs, **made} if made else kwargs)

    def _results_again(self, torch, args, kwargs):
        """Results that were made for such shapes before, made anew; None: there were none."""
        tensor, like, memo = torch.Tensor, None, []
        for a in args:
            memo.append(a.shape if isinstance(a, tensor) else a)
        for name, a in kwargs.items():
            memo += (name, a.shape if isinstance(a, tensor) else a)
        results = self._torch_results.get(tuple(memo))
        if results is None:
            return None
        like = next(a for a in (*args, *kwargs.values()) if isinstance(a, tensor))
        return {name: torch.empty(shape, dtype=dtype, device=like.device)
                for name, shape, dtype in results}

    @staticmethod
    def _raw_stream(torch, index):
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return raw(index) if raw else torch.cuda.current_stream(index).cuda_stream

    def _call_torch(self, torch, given, args, kwargs, told):
        """Tensors of one device: their memory is used as it is, on torch's current stream; tensors of
        the CPU run on the emulator."""
        shapes, like = {}, None
        for name, value in given.items():
            if isinstance(value, torch.Tensor):
                if like is None:
                    like = value
                elif value.device != like.device:
                    raise ValueError(f"`{name}` is on {value.device}, others on {like.device}")
                shapes[name] = value.shape
            elif name in self._names and self._names[name].kind == "tensor":
                raise TypeError(f"`{name}` is a {type(value).__name__} beside torch tensors")
        results = []
        for p in self._tensors:
            if p.direction == "out" and p.name not in given:
                shape = self._shape_of(p, self._names_bound(given, shapes))
                results.append((p.name, shape, _torch_dtype(torch, p.dtype)))
        for name, shape, dtype in results:
            given[name] = torch.empty(shape, dtype=dtype, device=like.device)
        if like.device.type != "cuda":
            return self._call_torch_host(torch, given)
        index = like.device.index or 0
        device_ = device(f"cuda:{index}")
        bound = self._resolve_torch(torch, device_, given)
        if told is None or not hasattr(like, "__dlpack_c_exchange_api__"):
            self._remember(torch, given, len(args), results, (bound, device_, index))
        else:
            told.append(self._told(torch, args, kwargs, results, bound, device_, like))
        self._lib.tilec_bound_launch(bound.handle, device_.stream(self._raw_stream(torch, index) or 0))
        return self._results(given)

    def _told(self, torch, args, kwargs, results, bound, device_, like):
        places = {p.name: i for i, p in enumerate(self._order[:len(args)])}
        places.update((name, len(args) + i) for i, name in enumerate(kwargs))
        places.update((name, -1 - i) for i, (name, _, _) in enumerate(results))
        make = tuple((torch.empty, (shape,), {"dtype": dtype, "device": like.device})
                     for _, shape, dtype in results)
        return (bound.handle.value, bound, device_.stream,
                tuple(places[p.name] for p in self._tensors),
                tuple(places[name] for name in self._out_names), make)

    def _remember(self, torch, given, positional, results, call):
        """As _call_again will ask: positional arguments by place, others by name, then results."""
        key, memo = [], []
        by_place = [p.name for p in self._order[:positional]]
        for name in [*by_place, *[n for n in given if n not in by_place]]:
            value = given[name]
            words = () if name in by_place else (name,)
            if isinstance(value, torch.Tensor):
                key += (*words, value.data_ptr(), value.shape, value.stride(), value.dtype)
            else:
                key += (*words, value, type(value))
            if name not in [r[0] for r in results]:
                memo += (*words, value.shape if isinstance(value, torch.Tensor) else value)
        if len(self._torch_calls) >= _KEPT:
            self._torch_calls.clear()
            self._torch_results.clear()
        self._torch_calls[tuple(key)] = call
        self._torch_results[tuple(memo)] = results

    def _resolve_torch(self, torch, device_, given):
        dtypes = _torch_dtypes(torch)
        tensors, values = {}, {}
        for name, value in given.items():
            if not isinstance(value, torch.Tensor):
                values[name] = value
                continue
            dtype = dtypes.get(value.dtype)
            self._check_dtype(self._names[name], dtype or str(value.dtype))
            shape = tuple(value.shape)
            strides = None if value.is_contiguous() else tuple(value.stride())
            tensors[name] = (value.data_ptr(), shape, strides)
        return self._bind(device_, tensors, values)

    def _call_torch_host(self, torch, given):
        dtypes = _torch_dtypes(torch)
        views = dict(given)
        for name, value in given.items():
            if isinstance(value, torch.Tensor):
                shape = tuple(value.shape)
                strides = None if value.is_contiguous() else tuple(value.stride())
                views[name] = View(dtypes.get(value.dtype, str(value.dtype)), shape, strides,
                                   value.data_ptr(), "host", value)
        self._run_host(device("emulator"), views)
        return self._results(given)
