"""Bundles: kernels that were built ahead of time, called as others are.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import os
import weakref

from ._kernel import Kernel
from ._parameters import Parameter
from ._library import library


class BundleKernel(Kernel):
    """A kernel of a bundle: called as others are, built already. Its parameters are tensors, scalars,
    then what differs between builds."""

    def __init__(self, bundle, name, device_name):
        self._bundle, self._asked = bundle, name.encode()
        super().__init__(bundle._lib, bundle._handle, None, {}, device_name)

    def _look(self):
        lib, at = self._lib, (self._handle, self._asked)
        return self._asked.decode(), [Parameter(lib.tilec_bundle_parameter(*at, i).contents)
                                      for i in range(lib.tilec_bundle_parameter_count(*at))]

    def _warnings(self):
        return ""

    def _free(self):
        self._bundle = None

    def _bind_args(self, device_, args, out):
        self._lib.tilec_bundle_bind(self._handle, self._asked, device_._handle, args.handle, out)

    def _prepare_args(self, device_, args):
        self._lib.tilec_bundle_prepare(self._handle, self._asked, device_._handle, args.handle)

    def emit(self, what, **values):
        raise TypeError(f"{self.name} is of a bundle: there is no source to emit {what} from")

    def explain(self, *words, **values):
        raise TypeError(f"{self.name} is of a bundle: there is no source to explain")


class Bundle:
    """The kernels of a bundle that `tilec bundle` built, by name: tilec.bundle("k.tilec")["gemm"]."""

    def __init__(self, path, device_name="auto"):
        self._lib, self._device_name = library(), device_name
        self._handle = ctypes.c_void_p()
        self._lib.tilec_bundle_open(os.fspath(path).encode(), ctypes.byref(self._handle))
        self.kernels = [self._lib.tilec_bundle_kernel(self._handle, i).decode()
                        for i in range(self._lib.tilec_bundle_count(self._handle))]
        self._made = {}

    def __del__(self):
        if getattr(self, "_handle", None):
            self._lib.tilec_bundle_free(self._handle)

    def __getitem__(self, name):
        if name not in self.kernels:
            raise KeyError(f"the bundle has {', '.join(self.kernels)}, not `{name}`")
        made = self._made.get(name)
        kernel = made() if made else None
        if kernel is None:
            kernel = BundleKernel(self, name, self._device_name)
            self._made[name] = weakref.ref(kernel)  # kernels keep the bundle, not it them
        return kernel


def bundle(path, device="auto"):
    """The kernels of a bundle. `device` is for arrays of the host's memory."""
    return Bundle(path, device)
