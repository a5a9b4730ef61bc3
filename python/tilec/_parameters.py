"""What a kernel's signature says, and the arguments that a call makes of it.

An extent of a signature is a text over names of dims and values; results that a call was not given
are made as large as it says.

SPDX-License-Identifier: Apache-2.0
"""

import ast
import ctypes

from ._library import DTYPE_NUMBER, PARAMETER_KINDS


class Parameter:
    """A parameter of a kernel's signature."""

    def __init__(self, c):
        self.kind = PARAMETER_KINDS[c.kind]
        self.name = c.name.decode()
        self.dtype = c.dtype.decode()
        self.direction = c.direction.decode()  # of tensors: "in", "out", "inout"
        self.default = c.default_value.decode()  # "": none
        self.is_static = bool(c.is_static)  # compiled in
        self.dims = tuple(c.dims[i].decode() for i in range(c.rank))

    def __repr__(self):
        if self.kind != "tensor":
            return f"{self.name}: {self.dtype or self.kind}"
        way = "" if self.direction == "in" else self.direction + " "
        return f"{self.name}: {way}{self.dtype}[{', '.join(self.dims)}]"


_OPERATORS = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a // b, ast.Mod: lambda a, b: a % b,
}
_FUNCTIONS = {"min": min, "max": max, "ceildiv": lambda a, b: -(-a // b),
              "cdiv": lambda a, b: -(-a // b)}


class _Missing(Exception):
    pass


def _evaluate(text, names):
    """An extent of a signature: numbers, names, + - * / % and min, max, ceildiv."""

    def value(node):
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in names:
                raise _Missing(node.id)
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*[value(a) for a in node.args])
        raise _Missing(text)

    return value(ast.parse(text, mode="eval").body)


class _Args:
    """tilec_args, freed with this."""

    def __init__(self, lib):
        self._lib, self.handle = lib, lib.tilec_args_create()

    def __del__(self):
        self._lib.tilec_args_free(self.handle)

    def tensor(self, name, dtype, address, shape, strides):
        numbers = ctypes.c_int64 * len(shape)
        self._lib.tilec_args_tensor(self.handle, name.encode(), DTYPE_NUMBER[dtype], address,
                                    len(shape), numbers(*shape),
                                    numbers(*strides) if strides is not None else None)

    def value(self, name, value):
        key = name.encode()
        if isinstance(value, bool):
            self._lib.tilec_args_bool(self.handle, key, value)
        elif isinstance(value, int):
            self._lib.tilec_args_int(self.handle, key, value)
        elif isinstance(value, float):
            self._lib.tilec_args_float(self.handle, key, value)
        else:
            raise TypeError(f"`{name}` is a {type(value).__name__}; values are bool, int or float")


class Text(str):
    """A text that notebooks show as it is laid out."""

    def _repr_html_(self):
        escaped = self.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f"<pre>{escaped}</pre>"
