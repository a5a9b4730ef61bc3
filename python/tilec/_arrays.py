"""Arrays of the caller: where their bytes are, what they hold, and a small array of our own for
programs that have no array library.

A kernel's dtype says how bytes are read. An array library that lacks the dtype (bf16, fp8) may bring
words of the same size: u16 for bf16, u8 for fp8.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import math
import struct

from ._library import DTYPE_BYTES

# dtypes by the words of the array interface (`typestr` less its byte order), by format characters
# of buffers, and by DLPack's (code, bits).
_TYPESTR = {"b1": "bool", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "u1": "u8", "u2": "u16",
            "u4": "u32", "u8": "u64", "f2": "f16", "f4": "f32", "f8": "f64", "V1": "u8", "V2": "u16"}
_FORMATS = {"?": "bool", "b": "i8", "h": "i16", "i": "i32", "B": "u8", "c": "u8", "H": "u16",
            "I": "u32", "e": "f16", "f": "f32", "d": "f64",
            "l": f"i{8 * struct.calcsize('l')}", "L": f"u{8 * struct.calcsize('L')}",
            "q": "i64", "Q": "u64"}
_DLPACK = {(0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64", (1, 8): "u8",
           (1, 16): "u16", (1, 32): "u32", (1, 64): "u64", (2, 16): "f16", (2, 32): "f32",
           (2, 64): "f64", (4, 16): "bf16", (6, 8): "bool", (10, 8): "e4m3", (12, 8): "e5m2"}
# What may stand for a dtype that an array library lacks.
STANDS_FOR = {"bf16": ("u16", "i16"), "e4m3": ("u8", "i8"), "e5m2": ("u8", "i8"), "tf32": ("f32",),
              "bool": ("u8",), "e2m1x2": ("u8", "i8"), "ue8m0": ("u8", "i8"),
              "ue4m3": ("u8", "i8", "e4m3")}
# Formats by which values of our own arrays are read; others are decoded below.
_STRUCT = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H",
           "u32": "I", "u64": "Q", "e2m1x2": "B", "f16": "e", "f32": "f", "tf32": "f", "f64": "d"}


class View:
    """Where an array is. `strides` count elements; None: dense, row-major."""

    __slots__ = ("dtype", "shape", "strides", "address", "where", "index", "keep", "writable")

    def __init__(self, dtype, shape, strides, address, where, keep, index=0, writable=True):
        self.dtype, self.shape, self.strides = dtype, tuple(shape), strides
        self.address, self.where, self.index = address, where, index  # where: "host", "cuda"
        self.keep, self.writable = keep, writable


def dense_strides(shape):
    out, step = [], 1
    for extent in reversed(shape):
        out.append(step)
        step *= extent
    return tuple(reversed(out))


def count(shape):
    n = 1
    for extent in shape:
        n *= extent
    return n


def _dense(shape, strides):
    """None if `strides` are those of dense rows; extents of 1 have any."""
    if strides is None or 0 in shape:
        return None
    same = all(e == 1 or s == d for e, s, d in zip(shape, strides, dense_strides(shape)))
    return None if same else tuple(strides)


def _in_elements(strides, itemsize, what):
    if strides is None:
        return None
    if any(s % itemsize for s in strides):
        raise ValueError(f"{what}: strides of {strides} bytes are no multiples of {itemsize}")
    return tuple(s // itemsize for s in strides)


def _of_interface(array, interface, where):
    typestr = interface["typestr"]
    if typestr[0] == ">":
        raise TypeError(f"an array of big-endian `{typestr}` cannot be used")
    name = getattr(getattr(array, "dtype", None), "name", "")
    dtype = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}.get(
        name, _TYPESTR.get(typestr[1:]))
    if dtype is None:
        raise TypeError(f"there is no dtype for arrays of `{typestr}`")
    shape = interface["shape"]
    strides = _in_elements(interface.get("strides"), DTYPE_BYTES[dtype], "array")
    address, read_only = interface["data"]
    return View(dtype, shape, _dense(shape, strides), address or 0, where, array,
                writable=not read_only)


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int),
                ("device_id", ctypes.c_int), ("ndim", ctypes.c_int), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_DLTENSOR = b"dltensor"


def _of_dlpack(array):
    kind, index = array.__dlpack_device__()
    # A GPU's producer makes the default stream wait for its work.
    capsule = array.__dlpack__() if kind == 1 else array.__dlpack__(stream=1)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = _DLTensor.from_address(get(capsule, _DLTENSOR))
    where = {1: "host", 2: "cuda", 3: "host", 13: "cuda"}.get(int(kind))
    dtype = _DLPACK.get((t.code, t.bits))
    if where is None or dtype is None or t.lanes != 1:
        raise TypeError(f"an array of DLPack type ({t.code}, {t.bits} bits, {t.lanes} lanes) on "
                        f"device kind {int(kind)} cannot be used")
    shape = [t.shape[i] for i in range(t.ndim)]
    strides = [t.strides[i] for i in range(t.ndim)] if t.strides else None
    # The capsule is never renamed: it frees its tensor when it goes, after the array's view.
    return View(dtype, shape, _dense(shape, strides), (t.data or 0) + t.byte_offset, where,
                (array, capsule), index=index)


def _of_buffer(array):
    view = memoryview(array)
    dtype = _FORMATS.get(view.format.lstrip("@=<"))
    if dtype is None:
        raise TypeError(f"there is no dtype for buffers of format `{view.format}`")
    strides = _in_elements(view.strides, view.itemsize, "buffer")
    n = view.nbytes
    if n == 0:
        address, keep = 0, view
    elif view.readonly or not view.c_contiguous:
        # Bytes that may not be written, or are scattered, are copied.
        keep = ctypes.create_string_buffer(view.tobytes(), n)
        return View(dtype, view.shape, None, ctypes.addressof(keep), "host", keep, writable=False)
    else:
        keep = (ctypes.c_char * n).from_buffer(view)
        address = ctypes.addressof(keep)
    return View(dtype, view.shape, _dense(view.shape, strides), address, "host", keep)


def view_of(array, name):
    """The View of whatever `array` is."""
    for attribute, where in (("__cuda_array_interface__", "cuda"), ("__array_interface__", "host")):
        interface = getattr(array, attribute, None)
        if interface is not None:
            return _of_interface(array, interface, where)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array)
    try:
        return _of_buffer(array)
    except TypeError as e:
        if "bytes-like" in str(e):
            raise TypeError(
                f"`{name}` is a {type(array).__name__}; what holds an array is one of torch, numpy, "
                "DLPack or the buffer protocol, or a tilec.array") from None
        raise TypeError(f"`{name}`: {e}") from None


def gathered(view, name):
    """A dense host View of the elements of a strided one (a copy)."""
    if view.strides is None:
        return view
    if any(s < 0 for s in view.strides):
        raise ValueError(f"`{name}` has negative strides {view.strides}: make it contiguous")
    size = DTYPE_BYTES[view.dtype]
    out = ctypes.create_string_buffer(max(1, count(view.shape) * size))
    at = ctypes.addressof(out)
    inner = view.shape[-1] if view.strides[-1] == 1 else 1
    outer = view.shape[:-1] if view.strides[-1] == 1 else view.shape
    steps = view.strides[:len(outer)]
    index = [0] * len(outer)
    for _ in range(count(outer)):
        offset = sum(i * s for i, s in zip(index, steps))
        ctypes.memmove(at, view.address + offset * size, inner * size)
        at += inner * size
        for d in reversed(range(len(outer))):
            index[d] += 1
            if index[d] < outer[d]:
                break
            index[d] = 0
    return View(view.dtype, view.shape, None, ctypes.addressof(out), "host", out, writable=False)


# ---- Our own array -------------------------------------------------------------------------------


def _small_float(word, exponent_bits, mantissa_bits, bias, finite_only):
    sign = -1.0 if word >> (exponent_bits + mantissa_bits) else 1.0
    exponent = word >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = word & ((1 << mantissa_bits) - 1)
    top = exponent == (1 << exponent_bits) - 1
    if finite_only and top and mantissa == (1 << mantissa_bits) - 1:
        return float("nan")
    if top and not finite_only:
        return float("nan") if mantissa else sign * float("inf")
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def _decode(dtype, word):
    if dtype == "bf16":
        return struct.unpack("<f", struct.pack("<I", word << 16))[0]
    if dtype == "ue8m0":
        return float("nan") if word == 0xFF else 2.0 ** (word - 127)
    if dtype in ("e4m3", "ue4m3"):
        return _small_float(word, 4, 3, 7, True)
    return _small_float(word, 5, 2, 15, False)


def _encode(dtype, value):
    """The word nearest to `value`, ties to even."""
    if dtype == "bf16":
        word = struct.unpack("<I", struct.pack("<f", value))[0]
        if word & 0x7FFFFFFF > 0x7F800000:
            return 0x7FC0
        return (word + 0x7FFF + (word >> 16 & 1)) >> 16
    if dtype == "ue8m0":  # the largest power of two not above it
        if value != value:
            return 0xFF
        size = min(max(abs(value), 2.0 ** -127), 2.0 ** 127)
        return math.frexp(size)[1] + 126
    sign = 0x80 if struct.pack(">d", value)[0] & 0x80 else 0
    if dtype == "ue4m3":
        sign, value = 0, 0.0 if value < 0 else value
    if value != value:
        return sign | 0x7F
    top = 0x7B if dtype == "e5m2" else 0x7E  # the largest finite word; fp8 saturates
    size, best = abs(value), 0
    for word in range(top + 1):  # words grow with their values
        if abs(_decode(dtype, word) - size) < abs(_decode(dtype, best) - size) or (
                abs(_decode(dtype, word) - size) == abs(_decode(dtype, best) - size)
                and word % 2 == 0):
            best = word
    return sign | best


class Array:
    """A dense array on the host, for programs without an array library. numpy.asarray(a) shares its
    memory (bf16 as u16 and fp8 as u8 words)."""

    def __init__(self, dtype, shape, data=None):
        if dtype not in DTYPE_BYTES:
            raise TypeError(f"there is no dtype `{dtype}`; there are {', '.join(DTYPE_BYTES)}")
        self.dtype, self.shape = dtype, tuple(int(e) for e in shape)
        n = count(self.shape) * DTYPE_BYTES[dtype]
        self._data = bytearray(n) if data is None else bytearray(data)
        if len(self._data) != n:
            raise ValueError(f"{len(self._data)} bytes are no array of {dtype}{list(self.shape)}")
        self._pin = (ctypes.c_char * max(1, n)).from_buffer(self._data) if n else None

    @property
    def __array_interface__(self):
        words = {"bf16": "<u2", "bool": "|b1", "tf32": "<f4"}
        words.update(dict.fromkeys(("e4m3", "e5m2", "e2m1x2", "ue8m0", "ue4m3"), "|u1"))
        kind = {"i": "i", "u": "u", "f": "f"}
        size = DTYPE_BYTES[self.dtype]
        typestr = words.get(self.dtype) or f"{'|' if size == 1 else '<'}{kind[self.dtype[0]]}{size}"
        address = ctypes.addressof(self._pin) if self._pin else 0
        return {"version": 3, "shape": self.shape, "typestr": typestr, "data": (address, False)}

    def tobytes(self):
        return bytes(self._data)

    def tolist(self):
        """Nested lists of Python numbers; a number if there are no dims."""
        size = DTYPE_BYTES[self.dtype]
        if self.dtype in _STRUCT:
            flat = [v for (v,) in struct.iter_unpack("<" + _STRUCT[self.dtype], self._data)]
        else:
            words = struct.iter_unpack("<" + ("H" if size == 2 else "B"), self._data)
            flat = [_decode(self.dtype, w) for (w,) in words]
        return _nested(flat, self.shape)

    def __repr__(self):
        return f"tilec.Array({self.dtype}{list(self.shape)})"


def _nested(flat, shape):
    if not shape:
        return flat[0]
    step = count(shape[1:])
    if len(shape) == 1:
        return flat
    return [_nested(flat[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def _flatten(values, depth, shape, out):
    if not isinstance(values, (list, tuple)):
        if depth != len(shape):
            raise ValueError("the lists are not equally deep")
        out.append(values)
        return
    if depth == len(shape):
        if out:
            raise ValueError("the lists are not equally deep")
        shape.append(len(values))
    if len(values) != shape[depth]:
        raise ValueError(f"lists of {shape[depth]} and {len(values)} elements side by side")
    for value in values:
        _flatten(value, depth + 1, shape, out)


def array(values, dtype="f32"):
    """An Array of nested lists of numbers."""
    shape, flat = [], []
    _flatten(values, 0, shape, flat)
    if dtype in _STRUCT:
        data = struct.pack(f"<{len(flat)}{_STRUCT[dtype]}", *flat)
    else:
        data = b"".join(_encode(dtype, float(v)).to_bytes(DTYPE_BYTES[dtype], "little")
                        for v in flat)
    return Array(dtype, shape, data)


def zeros(shape, dtype="f32"):
    return Array(dtype, shape)
