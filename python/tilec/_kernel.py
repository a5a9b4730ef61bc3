"""Kernels and calls.

A call binds arrays to the tensors of the signature, makes the results it was not given, and launches.
What was resolved is kept by all that tells one call from another, so that a call like one before is
a look-up and one call of the library.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import warnings
import weakref

from . import _arrays
from ._arrays import Array, View
from ._errors import Error, KernelWarning
from ._launch import Launch, _Bound, device
from ._library import DTYPE_BYTES
from ._parameters import Parameter, Text, _Args, _evaluate, _Missing
from ._torch_calls import _KEPT, TorchCalls, _torch_of


_NUMPY_NAMES = {"f32": "float32", "f16": "float16", "bf16": "uint16", "f64": "float64",
                "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
                "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool",
                "tf32": "float32", "e4m3": "uint8", "e5m2": "uint8", "e2m1x2": "uint8",
                "ue8m0": "uint8", "ue4m3": "uint8"}


class Kernel(TorchCalls):
    """A kernel to be called with arrays. Compiled for its compile-time values and for what is known
    of its tensors at the first call with such arguments; kept in memory and in a cache on disk."""

    def __init__(self, lib, handle, source, options, device_name):
        self._lib, self._handle = lib, handle
        self._source, self._options, self._device_name = source, options, device_name
        self.name, self.parameters = self._look()
        self._tensors = [p for p in self.parameters if p.kind == "tensor"]
        self._order = [p for p in self.parameters if p.kind in ("tensor", "scalar", "const")
                       and p.direction != "out"]
        self._out_names = [p.name for p in self._tensors if p.direction == "out"]
        self._names = {p.name: p for p in self.parameters}
        self._launch = lib.tilec_bound_launch
        self._calls = {}  # what repeated calls resolved to
        self._torch_calls = {}  # the same, of torch tensors on a GPU: bound, device, index
        self._torch_results = {}  # by what was given: names, shapes and dtypes of the results to make
        self._fast = None
        if lib.fast is not None:
            me = weakref.ref(self)
            self._fast = lib.fast.Caller(lambda args, kwargs: me()._tell(args, kwargs), lib.fail,
                                         lib.address_of("tilec_bound_launch"),
                                         lib.address_of("tilec_bound_launch_at"))
        self.__signature__ = self._signature()
        said = self._warnings()
        if said:
            warnings.warn(said, KernelWarning, stacklevel=4)

    # ---- What a kernel of a bundle does otherwise ----

    def _look(self):
        lib, handle = self._lib, self._handle
        return lib.tilec_kernel_name(handle).decode(), [
            Parameter(lib.tilec_kernel_parameter(handle, i).contents)
            for i in range(lib.tilec_kernel_parameter_count(handle))]

    def _warnings(self):
        return self._lib.tilec_kernel_warnings(self._handle).decode()

    def _free(self):
        self._lib.tilec_kernel_free(self._handle)

    def _bind_args(self, device_, args, out):
        self._lib.tilec_kernel_bind(self._handle, device_._handle, args.handle, out)
        self._say()

    def _prepare_args(self, device_, args):
        self._lib.tilec_prepare(self._handle, device_._handle, args.handle)
        self._say()

    def _say(self):
        """Warnings of what was chosen and compiled just now: --tune=measure without a clock."""
        said = self._lib.tilec_kernel_said(self._handle)
        if said:
            text = ctypes.string_at(said).decode("utf-8", "replace")
            self._lib.tilec_text_free(said)
            warnings.warn(text, KernelWarning, stacklevel=5)

    def __del__(self):
        if getattr(self, "_handle", None):
            self._calls.clear()
            self._fast = None
            self._free()

    def __repr__(self):
        words = [repr(p) for p in self.parameters if p.kind in ("tensor", "scalar", "const")]
        return f"<tilec kernel {self.name}({', '.join(words)})>"

    def _signature(self):
        import inspect

        kinds = inspect.Parameter
        out = [kinds(p.name, kinds.POSITIONAL_OR_KEYWORD,
                     **({"default": p.default} if p.default else {})) for p in self._order]
        # Defaults may stand anywhere in a .tile signature, in Python's only at its end.
        seen_default = False
        for i, p in enumerate(out):
            seen_default = seen_default or p.default is not kinds.empty
            if seen_default and p.default is kinds.empty:
                out[i] = p.replace(default=None)
        out += [kinds(p.name, kinds.KEYWORD_ONLY, default=None) for p in self.parameters
                if p not in self._order]
        return inspect.Signature(out)

    # ---- Calls ----

    def __call__(self, *args, **kwargs):
        """Runs the kernel on arrays, by position or name; results (`out` tensors) by name only, or
        made like the inputs: torch tensors, numpy arrays, else tilec.Array. Returns the results: one, a
        tuple, or None where there are only `inout` ones."""
        if self._fast is not None:
            return self._fast(*args, **kwargs)
        return self._tell(args, kwargs)[0]

    def _tell(self, args, kwargs):
        """The call's result, and how to do it again: python/native/fast.c says in which form."""
        kwargs = kwargs or {}
        if self._torch_calls:
            done, result = self._call_again(args, kwargs)
            if done:
                return result, None
        told = [] if self._fast is not None else None
        result = self._call(args, kwargs, told)
        return result, (told[0] if told else None)

    def _call(self, args, kwargs, told):
        if len(args) > len(self._order):
            raise TypeError(f"{self.name} takes {len(self._order)} positional arguments "
                            f"({', '.join(p.name for p in self._order)}), {len(args)} were given; "
                            "results are given by name")
        given = dict(zip((p.name for p in self._order), args))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{self.name} got `{name}` twice")
            if name not in self._names:
                raise TypeError(f"{self.name} has no parameter `{name}`; it has "
                                f"{', '.join(self._names)}")
            given[name] = value
        for p in self._tensors:
            torch = _torch_of(given.get(p.name))
            if torch is not None:
                return self._call_torch(torch, given, args, kwargs, told)
        return self._call_arrays(given)

    def _results(self, given):
        if len(self._out_names) == 1:
            return given[self._out_names[0]]
        outs = [given[name] for name in self._out_names]
        return tuple(outs) if outs else None

    def _names_bound(self, given, shapes):
        """Dims by what the tensors' shapes and the values say."""
        names = {n: v for n, v in given.items()
                 if isinstance(v, int) and not isinstance(v, bool)}
        for p in self._tensors:
            shape = shapes.get(p.name)
            if shape is None:
                continue
            if len(shape) != len(p.dims):
                raise ValueError(f"`{p.name}` of {self.name} has {len(p.dims)} dims "
                                 f"[{', '.join(p.dims)}], the array has {len(shape)}: {list(shape)}")
            for text, extent in zip(p.dims, shape):
                if text.isidentifier():
                    names.setdefault(text, int(extent))
        for p in self.parameters:  # integer defaults may shape a result
            if p.name not in names and p.default.lstrip("-").isdigit():
                names[p.name] = int(p.default)
        return names

    def _shape_of(self, p, names):
        try:
            return tuple(_evaluate(text, names) for text in p.dims)
        except _Missing as e:
            raise TypeError(f"the shape [{', '.join(p.dims)}] of result `{p.name}` of {self.name} "
                            f"needs {e}: give {e}=NUMBER, or an array for `{p.name}`") from None

    def _check_dtype(self, p, dtype):
        if dtype != p.dtype and dtype not in _arrays.STANDS_FOR.get(p.dtype, ()):
            raise TypeError(f"`{p.name}` of {self.name} is a tensor of {p.dtype}, the array has "
                            f"{dtype}")

    def _bind(self, device_, tensors, values):
        """`tensors`: name to (address, shape, strides)."""
        args = _Args(self._lib)
        for p in self._tensors:
            if p.name in tensors:
                args.tensor(p.name, p.dtype, *tensors[p.name])
        for name, value in values.items():
            args.value(name, value)
        out = ctypes.c_void_p()
        self._bind_args(device_, args, ctypes.byref(out))
        return _Bound(self._lib, out)

    def _view(self, p, value):
        if isinstance(value, Array):
            interface = value.__array_interface__
            view = View(value.dtype, value.shape, None, interface["data"][0], "host", value)
        else:
            view = _arrays.view_of(value, p.name)
        self._check_dtype(p, view.dtype)
        return view

    def _call_arrays(self, given):
        views = dict(given)
        shapes = {}
        for p in self._tensors:
            if p.name in given:
                views[p.name] = self._view(p, given[p.name])
                shapes[p.name] = views[p.name].shape
        names = None
        for p in self._tensors:
            if p.direction == "out" and p.name not in given:
                names = names or self._names_bound(given, shapes)
                given[p.name] = self._empty_like_inputs(p, self._shape_of(p, names), given)
                views[p.name] = self._view(p, given[p.name])
        on_gpu = [v for v in views.values() if isinstance(v, View) and v.where == "cuda"]
        if on_gpu:
            self._bind_in_place(device(f"cuda:{on_gpu[0].index}"), views)()
        else:
            self._run_host(device(self._device_name), views)
        return self._results(given)

    def _empty_like_inputs(self, p, shape, given):
        for other in self._tensors:
            value = given.get(other.name)
            if value is None:
                continue
            module = type(value).__module__.partition(".")[0]
            if module in ("numpy", "cupy"):
                library_ = sys.modules[module]
                return library_.empty(shape, dtype=_NUMPY_NAMES[p.dtype])
            if not isinstance(value, Array) and hasattr(value, "__cuda_array_interface__"):
                raise TypeError(f"give an array for the result `{p.name}`: nothing is known of how "
                                f"to make a {type(value).__name__}")
        return Array(p.dtype, shape)

    def _bind_in_place(self, device_, views):
        key = (device_.name, *[(n, v.address, v.shape, v.strides, v.dtype)
                               if isinstance(v, View) else (n, v, type(v))
                               for n, v in views.items()])
        call = self._calls.get(key)
        if call is not None:
            return Launch(device_, call)
        tensors, values = {}, {}
        for name, v in views.items():
            if not isinstance(v, View):
                values[name] = v
            elif v.where != "cuda":
                raise ValueError(f"`{name}` is in the host's memory, others are on the GPU")
            else:
                tensors[name] = (v.address, v.shape, v.strides)
        return Launch(device_, self._keep(key, self._bind(device_, tensors, values)))

    def _keep(self, key, call):
        if len(self._calls) >= _KEPT:
            self._calls.clear()
        self._calls[key] = call
        return call

    def bind(self, *args, **kwargs):
        """A launch with these arrays of a GPU, all results among them, with nothing left to choose or
        check: call it as often as you like, launch(stream) on a stream by torch's `cuda_stream`. The
        arrays must outlive it."""
        given = {**dict(zip((p.name for p in self._order), args)), **kwargs}
        views = {}
        for name, value in given.items():
            p = self._names.get(name)
            if p is None:
                raise TypeError(f"{self.name} has no parameter `{name}`; it has "
                                f"{', '.join(self._names)}")
            views[name] = self._view(p, value) if p.kind == "tensor" else value
        arrays = [v for v in views.values() if isinstance(v, View)]
        if not arrays or any(v.where != "cuda" for v in arrays):
            raise ValueError(f"what {self.name} is bound to is arrays of one GPU")
        return self._bind_in_place(device(f"cuda:{arrays[0].index}"), views)

    def _run_host(self, device_, views):
        """Copies in, launches, copies out."""
        lib, tensors, values, allocated, back = self._lib, {}, {}, [], []
        try:
            for name, v in views.items():
                if not isinstance(v, View):
                    values[name] = v
                    continue
                p = self._names[name]
                self._check_dtype(p, v.dtype)
                if p.direction != "in" and (v.strides is not None or not v.writable):
                    raise ValueError(f"`{name}` is written by {self.name}: it must be a contiguous "
                                     "array that may be written")
                size = _arrays.count(v.shape) * DTYPE_BYTES[p.dtype]
                address = device_.alloc(size)
                allocated.append(address)
                if size and p.direction != "out":
                    dense = _arrays.gathered(v, name)
                    lib.tilec_device_copy_in(device_._handle, address, dense.address, size)
                if size and p.direction != "in":
                    back.append((v.address, address, size))
                tensors[name] = (address, v.shape, None)
            bound = self._bind(device_, tensors, values)
            lib.tilec_bound_launch(bound.handle, 0)
            device_.synchronize()
            for to, address, size in back:
                lib.tilec_device_copy_out(device_._handle, to, address, size)
        finally:
            for address in allocated:
                device_.release(address)

    # ---- What it is compiled to ----

    def _args_of(self, values):
        """Arguments for looking: dims by name, tensors at addresses that are aligned."""
        values = dict(values)
        args = _Args(self._lib)
        names = self._names_bound(values, {})
        for i, p in enumerate(self._tensors):
            try:
                shape = tuple(_evaluate(text, names) for text in p.dims)
            except _Missing as e:
                raise TypeError(f"the shape of `{p.name}` needs {e}: give {e}=NUMBER") from None
            args.tensor(p.name, p.dtype, 256 << 20 | i << 40, shape, None)
        for name, value in values.items():
            if name not in self._names:
                raise TypeError(f"{self.name} has no parameter `{name}`; it has "
                                f"{', '.join(self._names)}")
            args.value(name, value)
        for p in self.parameters:  # what runs does not depend on them
            if p.kind == "scalar" and p.name not in values and not p.default:
                args.value(p.name, 1.0 if p.dtype[0] in "bef" and p.dtype != "bool" else 1)
        return args

    def emit(self, what, **values):
        """What a call with these dims and values runs: "tile-ir", "plan", "warp-ir", "llvm", "ptx" or
        "json"."""
        args, out = self._args_of(values), ctypes.c_void_p()
        self._lib.tilec_emit(self._handle, what.encode(), args.handle, ctypes.byref(out))
        text = ctypes.string_at(out.value).decode("utf-8", "replace")
        self._lib.tilec_text_free(out)
        return Text(text)

    def warmup(self, device_="auto", **values):
        """Compiles and loads for these dims and values; a list or range stands for each of its
        values. Returns how many combinations there were."""
        choices = [[(name, one) for one in (v if isinstance(v, (list, tuple, range)) else [v])]
                   for name, v in values.items()]
        import itertools

        n = 0
        for combination in itertools.product(*choices):
            args = self._args_of(dict(combination))
            self._prepare_args(device(device_), args)
            n += 1
        return n

    def explain(self, *words, **values):
        """The schedule of a build with these values and why it is not faster, as `tilec explain` says
        it; `words` are its options ("--decisions", "--program"). Without that command beside the
        library: the program's plan."""
        command = self._lib.command()
        if command is None:
            return self.emit("plan", **values)
        said = [f"{n}={str(v).lower() if isinstance(v, bool) else v}" for n, v in values.items()]
        if "target" in self._options:
            said.append(f"--target={self._options['target']}")
        if self._options.get("cache") == "off":
            said.append("--no-cache")
        path, text = self._source
        with tempfile.TemporaryDirectory() as folder:
            if text is not None:
                path = os.path.join(folder, os.path.basename(path))
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
            done = subprocess.run([command, "explain", f"{path}:{self.name}", *said, *words],
                                  capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Error(done.stderr or done.stdout)
        return Text(done.stdout)
