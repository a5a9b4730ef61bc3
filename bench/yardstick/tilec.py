"""tilec from Python: the C interface (include/tilec/tilec_c.h) through ctypes.

Compiler and peers must live in one process, or ratios compare two machines' moods. Kernels are
launched on the stream that the peer's framework uses, so one event pair times either.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes

DTYPES = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "tf32",
          "f32", "f64", "e4m3", "e5m2"]


class TilecError(Exception):
    """Diagnostics of the compiler or the launch, as text."""


class Library:
    """libtilec.so with its declarations."""

    def __init__(self, path):
        self.c = c = ctypes.CDLL(path)
        pointer, text, u64, i32 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32
        out = ctypes.POINTER(pointer)
        texts, i64s = ctypes.POINTER(text), ctypes.POINTER(ctypes.c_int64)

        def declare(name, result, *arguments):
            function = getattr(c, "tilec_" + name)
            function.restype, function.argtypes = result, list(arguments)

        declare("version", text)
        declare("status_text", text, pointer)
        declare("status_free", None, pointer)
        declare("device_open", pointer, text, out)
        declare("device_free", None, pointer)
        declare("device_description", text, pointer)
        declare("device_alloc", pointer, pointer, u64, ctypes.POINTER(u64))
        declare("device_release", None, pointer, u64)
        declare("device_copy_in", pointer, pointer, u64, pointer, u64)
        declare("device_copy_out", pointer, pointer, pointer, u64, u64)
        declare("device_adopt_stream", pointer, pointer, pointer, ctypes.POINTER(i32))
        declare("device_synchronize", pointer, pointer, i32)
        declare("compiler_create", pointer, texts, texts, ctypes.c_size_t, out)
        declare("compiler_free", None, pointer)
        declare("compile", pointer, pointer, text, text, out)
        declare("kernel_free", None, pointer)
        declare("args_create", pointer)
        declare("args_free", None, pointer)
        declare("args_tensor", None, pointer, text, ctypes.c_int, u64, i32, i64s, i64s)
        declare("args_int", None, pointer, text, ctypes.c_int64)
        declare("args_float", None, pointer, text, ctypes.c_double)
        declare("args_bool", None, pointer, text, ctypes.c_int)
        declare("launch", pointer, pointer, pointer, pointer, i32)

    def version(self):
        return self.c.tilec_version().decode()

    def check(self, status):
        """Raises what a call reported."""
        if status:
            message = self.c.tilec_status_text(status).decode()
            self.c.tilec_status_free(status)
            raise TilecError(message)

    def device(self, name):
        return Device(self, name)

    def compiler(self, **options):
        return Compiler(self, options)


class Device:
    """A device of tilec; streams of the framework are adopted once each."""

    def __init__(self, library, name):
        self.library = library
        self.handle = ctypes.c_void_p()
        library.check(library.c.tilec_device_open(name.encode(), ctypes.byref(self.handle)))
        self.streams = {0: 0}

    def description(self):
        return self.library.c.tilec_device_description(self.handle).decode()

    def stream(self, native):
        if native not in self.streams:
            adopted = ctypes.c_int32()
            self.library.check(self.library.c.tilec_device_adopt_stream(
                self.handle, native, ctypes.byref(adopted)))
            self.streams[native] = adopted.value
        return self.streams[native]

    def synchronize(self, stream=0):
        self.library.check(self.library.c.tilec_device_synchronize(self.handle, stream))

    def alloc(self, n):
        address = ctypes.c_uint64()
        self.library.check(self.library.c.tilec_device_alloc(self.handle, n, ctypes.byref(address)))
        return address.value

    def copy_in(self, to, data):
        self.library.check(self.library.c.tilec_device_copy_in(
            self.handle, to, ctypes.c_char_p(data), len(data)))

    def copy_out(self, start, n):
        data = ctypes.create_string_buffer(n)
        self.library.check(self.library.c.tilec_device_copy_out(self.handle, data, start, n))
        return data.raw


class Compiler:
    """Options as in CompilerOptions: target, schedule, cache (on, off), cache_dir, stdlib_dir."""

    def __init__(self, library, options):
        self.library = library
        self.handle = ctypes.c_void_p()
        texts = ctypes.c_char_p * max(1, len(options))
        library.check(library.c.tilec_compiler_create(
            texts(*[k.encode() for k in options]), texts(*[v.encode() for v in options.values()]),
            len(options), ctypes.byref(self.handle)))

    def compile(self, path, kernel):
        handle = ctypes.c_void_p()
        self.library.check(self.library.c.tilec_compile(
            self.handle, path.encode(), kernel.encode(), ctypes.byref(handle)))
        return Kernel(self.library, handle, self)


class Kernel:
    def __init__(self, library, handle, compiler):
        self.library, self.handle, self.compiler = library, handle, compiler

    def launch(self, device, arguments, stream=0):
        status = self.library.c.tilec_launch(self.handle, device.handle, arguments.handle, stream)
        if status:
            self.library.check(status)


class Arguments:
    """Tensors as (dtype, address, dims), scalars by value."""

    def __init__(self, library, tensors, values):
        self.library, c = library, library.c
        self.handle = c.tilec_args_create()
        for name, (dtype, address, dims) in tensors.items():
            extents = (ctypes.c_int64 * len(dims))(*dims)
            c.tilec_args_tensor(self.handle, name.encode(), DTYPES.index(dtype), address, len(dims),
                                extents, None)
        for name, value in values.items():
            if isinstance(value, bool):
                c.tilec_args_bool(self.handle, name.encode(), value)
            elif isinstance(value, int):
                c.tilec_args_int(self.handle, name.encode(), value)
            else:
                c.tilec_args_float(self.handle, name.encode(), value)

    def __del__(self):
        self.library.c.tilec_args_free(self.handle)
