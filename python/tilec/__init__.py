"""tilec: tile kernels on arrays, on a GPU or on the emulator.

    import tilec
    gemm = tilec.load("std/matmul.tile")["gemm"]
    C = gemm(A, B)              # torch tensors, numpy arrays, anything of DLPack, tilec.array

Errors are tilec.Error with the compiler's diagnostic as text. PyTorch's operators and autograd:
tilec.torch.

SPDX-License-Identifier: Apache-2.0
"""

from ._arrays import Array, array, zeros
from ._bundle import Bundle, bundle
from ._compiler import Compiler, Module, compile, load
from ._errors import Error, KernelWarning, Problem
from ._kernel import Kernel
from ._launch import Device, Graph, Launch, device
from ._library import ABI, library, use_library
from ._parameters import Parameter, Text

__all__ = ["ABI", "Array", "Bundle", "Compiler", "Device", "Error", "Graph", "Kernel", "KernelWarning", "Launch", "Module",
           "Parameter", "Problem", "Text", "array", "bundle", "compile", "device", "load", "use_library",
           "version", "zeros"]


def version():
    """Of the library that is loaded: "0.2.0"."""
    return library().tilec_version().decode()
