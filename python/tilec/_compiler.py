"""Where kernels come from: files, texts, and the options that both are compiled with.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import os

from ._kernel import Kernel
from ._library import library


class Compiler:
    """Options of compiling: target (a machine or its file), schedule, tune ("model", "classes",
    "default", "measure", "measure=SECONDS", a file of `tilec tune`, "model:improve",
    "classes:improve"), cache (bool), cache_dir, stdlib_dir, ptxas ("auto", "off" or a
    file)."""

    def __init__(self, **options):
        self._lib = library()
        if isinstance(options.get("cache"), bool):
            options["cache"] = "on" if options["cache"] else "off"
        n = len(options)
        names = (ctypes.c_char_p * n)(*[k.encode() for k in options])
        values = (ctypes.c_char_p * n)(*[str(v).encode() for v in options.values()])
        self._handle = ctypes.c_void_p()
        self._lib.tilec_compiler_create(names, values, n, ctypes.byref(self._handle))
        self.options = options

    def __del__(self):
        if getattr(self, "_handle", None):
            self._lib.tilec_compiler_free(self._handle)

    def kernel(self, path, name=None, device="auto"):
        out = ctypes.c_void_p()
        self._lib.tilec_compile(self._handle, os.fspath(path).encode(),
                                name.encode() if name else None, ctypes.byref(out))
        return Kernel(self._lib, out, (os.fspath(path), None), self.options, device)

    def kernel_of_text(self, text, name=None, file="kernel.tile", device="auto"):
        out = ctypes.c_void_p()
        self._lib.tilec_compile_text(self._handle, text.encode(), file.encode(),
                                     name.encode() if name else None, ctypes.byref(out))
        return Kernel(self._lib, out, (file, text), self.options, device)


class Module:
    """The kernels of a file, by name."""

    def __init__(self, compiler, path, device_name):
        self._compiler, self._path, self._device_name = compiler, path, device_name
        self._kernels = {}

    def __getitem__(self, name):
        if name not in self._kernels:
            self._kernels[name] = self._compiler.kernel(self._path, name, self._device_name)
        return self._kernels[name]

    def __repr__(self):
        return f"tilec.Module({self._path!r})"


def load(path, device="auto", **options):
    """The kernels of a .tile file ("std/matmul.tile" is the standard library's): load(path)["gemm"].
    `device` is for arrays of the host's memory."""
    return Module(Compiler(**options), path, device)


def compile(text, name=None, device="auto", file="kernel.tile", **options):
    """A kernel of a text; `name` may be left out if it has one."""
    return Compiler(**options).kernel_of_text(text, name, file, device)
