"""libtilec by ctypes: finds the library, declares the functions of tilec_c.h, raises its errors.

The only file that knows the binary interface; it is that of one minor version (docs/abi.md).

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import ctypes.util
import importlib.machinery
import importlib.util
import os

from ._errors import Error, Problem

ABI = "0.2"  # the SONAME's version

DTYPES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
          "f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "e2m1x2", "ue8m0", "ue4m3")  # tilec_dtype
DTYPE_BYTES = dict(zip(DTYPES, (1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 4, 8, 1, 1, 1, 1, 1)))
DTYPE_NUMBER = {name: i for i, name in enumerate(DTYPES)}

PARAMETER_KINDS = ("tensor", "scalar", "const", "dim", "tune")  # tilec_parameter_kind
PROBLEM_KINDS = ("error", "warning", "note")  # tilec_problem_kind


class CParameter(ctypes.Structure):
    """tilec_parameter"""

    _fields_ = [("kind", ctypes.c_int), ("is_static", ctypes.c_int), ("name", ctypes.c_char_p),
                ("dtype", ctypes.c_char_p), ("direction", ctypes.c_char_p),
                ("default_value", ctypes.c_char_p), ("rank", ctypes.c_size_t),
                ("dims", ctypes.POINTER(ctypes.c_char_p))]


_p = ctypes.c_void_p
_s = ctypes.c_char_p
_i32 = ctypes.c_int32
_i64 = ctypes.c_int64
_u64 = ctypes.c_uint64
_size = ctypes.c_size_t
_ref = ctypes.c_void_p  # an out parameter, given by ctypes.byref

# Name: result, arguments. A result of "status" is checked: what it says is raised.
_FUNCTIONS = {
    "tilec_version": (_s, []),
    "tilec_status_text": (_s, [_p]),
    "tilec_status_count": (_size, [_p]),
    "tilec_status_kind": (ctypes.c_int, [_p, _size]),
    "tilec_status_code": (_s, [_p, _size]),
    "tilec_status_message": (_s, [_p, _size]),
    "tilec_status_file": (_s, [_p, _size]),
    "tilec_status_line": (_i32, [_p, _size]),
    "tilec_status_column": (_i32, [_p, _size]),
    "tilec_status_problem": (_s, [_p, _size]),
    "tilec_status_free": (None, [_p]),
    "tilec_device_open": ("status", [_s, _ref]),
    "tilec_device_free": (None, [_p]),
    "tilec_device_description": (_s, [_p]),
    "tilec_device_kind": (_s, [_p]),
    "tilec_device_target": (_s, [_p]),
    "tilec_device_alloc": ("status", [_p, _u64, _ref]),
    "tilec_device_release": (None, [_p, _u64]),
    "tilec_device_copy_in": ("status", [_p, _u64, _p, _u64]),
    "tilec_device_copy_out": ("status", [_p, _p, _u64, _u64]),
    "tilec_device_adopt_stream": ("status", [_p, _p, _ref]),
    "tilec_device_synchronize": ("status", [_p, _i32]),
    "tilec_compiler_create": ("status", [_p, _p, _size, _ref]),
    "tilec_compiler_free": (None, [_p]),
    "tilec_compile": ("status", [_p, _s, _s, _ref]),
    "tilec_compile_text": ("status", [_p, _s, _s, _s, _ref]),
    "tilec_kernel_free": (None, [_p]),
    "tilec_kernel_warnings": (_s, [_p]),
    "tilec_kernel_said": (_p, [_p]),
    "tilec_kernel_name": (_s, [_p]),
    "tilec_kernel_parameter_count": (_size, [_p]),
    "tilec_kernel_parameter": (ctypes.POINTER(CParameter), [_p, _size]),
    "tilec_args_create": (_p, []),
    "tilec_args_free": (None, [_p]),
    "tilec_args_tensor": (None, [_p, _s, ctypes.c_int, _u64, _i32, _p, _p]),
    "tilec_args_int": (None, [_p, _s, _i64]),
    "tilec_args_float": (None, [_p, _s, ctypes.c_double]),
    "tilec_args_bool": (None, [_p, _s, ctypes.c_int]),
    "tilec_prepare": ("status", [_p, _p, _p]),
    "tilec_launch_timed": ("status", [_p, _p, _p, _i32, _ref]),
    "tilec_emit": ("status", [_p, _s, _p, _ref]),
    "tilec_text_free": (None, [_p]),
    "tilec_kernel_bind": ("status", [_p, _p, _p, _ref]),
    "tilec_bound_launch": ("status", [_p, _i32]),
    "tilec_bound_launch_at": ("status", [_p, _p, _size, _i32]),
    "tilec_bound_free": (None, [_p]),
    "tilec_bundle_open": ("status", [_s, _ref]),
    "tilec_bundle_free": (None, [_p]),
    "tilec_bundle_count": (_size, [_p]),
    "tilec_bundle_kernel": (_s, [_p, _size]),
    "tilec_bundle_parameter_count": (_size, [_p, _s]),
    "tilec_bundle_parameter": (ctypes.POINTER(CParameter), [_p, _s, _size]),
    "tilec_bundle_prepare": ("status", [_p, _s, _p, _p]),
    "tilec_bundle_bind": ("status", [_p, _s, _p, _p, _ref]),
    "tilec_graph_create": ("status", [_p, _ref]),
    "tilec_graph_add": ("status", [_p, _p, _ref]),
    "tilec_graph_move": ("status", [_p, _size, _p, _size]),
    "tilec_graph_launch": ("status", [_p, _i32]),
    "tilec_graph_free": (None, [_p]),
}


# What builds of this version had not from the start: the yardstick compares with those.
_LATER = {"tilec_kernel_said"}


def _candidates(path):
    if path:
        return [path]
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", f"libtilec.so.{ABI}")
    return ([here] if os.path.exists(here) else []) + [f"libtilec.so.{ABI}"]


def _text(value):
    return value.decode("utf-8", "replace") if value else ""


class Library:
    """The loaded library; its functions are attributes by their names in C."""

    def __init__(self, path=None):
        tried = _candidates(path)
        for name in tried:
            try:
                loaded = ctypes.CDLL(name)
                break
            except OSError as e:
                why = e
        else:
            raise ImportError(f"tilec finds no library {' or '.join(tried)}: {why}. "
                              "Install the wheel, or put the library's folder into "
                              "LD_LIBRARY_PATH.") from why
        self.path = loaded._name
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name, None)
            if function is None and name in _LATER:
                setattr(self, name, lambda *_: None)
                continue
            if function is None:
                raise ImportError(f"{loaded._name} has no `{name}`: it is of another version")
            function.argtypes = arguments
            function.restype = _p if result == "status" else result
            if result == "status":
                function.errcheck = self._check
            setattr(self, name, function)
        self.fast = self._fast_module(os.path.dirname(os.path.abspath(self.path)))

    @staticmethod
    def _fast_module(folder):
        """python/native/fast.c, built beside the library; None: calls take their way in Python."""
        file = os.path.join(folder, "_fast.abi3.so")
        if not os.path.exists(file):
            return None
        loader = importlib.machinery.ExtensionFileLoader("tilec._fast", file)
        spec = importlib.util.spec_from_file_location("tilec._fast", file, loader=loader)
        try:
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
        except ImportError:  # another implementation of Python
            return None
        return module

    def address_of(self, name):
        return ctypes.cast(getattr(self, name), ctypes.c_void_p).value

    def fail(self, status):
        """Raises what the status at this address says."""
        raise self.error_of(ctypes.c_void_p(status))

    def _check(self, status, _function, _arguments):
        if status is not None:
            raise self.error_of(status)

    def error_of(self, status):
        """The exception that a status stands for; frees it."""
        problems = [
            Problem(kind=PROBLEM_KINDS[self.tilec_status_kind(status, i)],
                    code=_text(self.tilec_status_code(status, i)),
                    message=_text(self.tilec_status_message(status, i)),
                    file=_text(self.tilec_status_file(status, i)),
                    line=self.tilec_status_line(status, i),
                    column=self.tilec_status_column(status, i),
                    text=_text(self.tilec_status_problem(status, i)))
            for i in range(self.tilec_status_count(status))]
        text = _text(self.tilec_status_text(status))
        self.tilec_status_free(status)
        return Error(text, problems)

    def command(self):
        """The `tilec` command that belongs to this library, or None."""
        folder = os.path.dirname(self.path)
        if not folder:
            return None
        for near in (folder, os.path.join(folder, "..", "bin"), os.path.join(folder, "..", "tools")):
            file = os.path.join(near, "tilec")
            if os.access(file, os.X_OK) and os.path.isfile(file):
                return file
        return None


_library = None


def library():
    """The library of this process, loaded when it is first needed."""
    global _library
    if _library is None:
        _library = Library()
    return _library


def use_library(path):
    """Loads libtilec from `path`; to be called before anything else of this package."""
    global _library
    if _library is not None:
        raise RuntimeError(f"libtilec is loaded already, from {_library.path}")
    _library = Library(path)
