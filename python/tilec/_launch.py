"""Devices, and launches on them: a launch with everything resolved, and graphs of launches.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes

from ._library import library


class Device:
    """A GPU ("cuda", "cuda:1"), the emulator, or "auto": the first GPU, else the emulator."""

    def __init__(self, name="auto"):
        self._lib = library()
        self._handle = ctypes.c_void_p()
        self._lib.tilec_device_open(name.encode(), ctypes.byref(self._handle))
        self.name = name
        self.kind = self._lib.tilec_device_kind(self._handle).decode()
        self.target = self._lib.tilec_device_target(self._handle).decode()
        self._streams = {0: 0}  # of the host program: our number, by address

    def __del__(self):
        if getattr(self, "_handle", None):
            self._lib.tilec_device_free(self._handle)

    def __repr__(self):
        return f"tilec.Device({self._lib.tilec_device_description(self._handle).decode()!r})"

    def synchronize(self):
        """Waits for everything launched on the default stream."""
        self._lib.tilec_device_synchronize(self._handle, 0)

    def stream(self, address):
        """The number of a CUDA stream of the host program (torch: stream.cuda_stream)."""
        number = self._streams.get(address)
        if number is None:
            out = ctypes.c_int32()
            self._lib.tilec_device_adopt_stream(self._handle, address, ctypes.byref(out))
            number = self._streams[address] = out.value
        return number

    def alloc(self, size):
        out = ctypes.c_uint64()
        self._lib.tilec_device_alloc(self._handle, max(1, size), ctypes.byref(out))
        return out.value

    def release(self, address):
        self._lib.tilec_device_release(self._handle, address)


_devices = {}


def device(name="auto"):
    """The device of that name, opened once."""
    if isinstance(name, Device):
        return name
    if name not in _devices:
        _devices[name] = Device(name)
    return _devices[name]


class _Bound:
    """tilec_bound, freed with this."""

    def __init__(self, lib, handle):
        self._lib, self.handle = lib, handle

    def __del__(self):
        self._lib.tilec_bound_free(self.handle)


class Launch:
    """A launch that was resolved: Kernel.bind."""

    __slots__ = ("_device", "_bound", "_run", "_handle")

    def __init__(self, device_, bound):
        self._device, self._bound = device_, bound
        self._run, self._handle = device_._lib.tilec_bound_launch, bound.handle

    def __call__(self, stream=0):
        self._run(self._handle, self._device.stream(stream) if stream else 0)

    def at(self, *addresses, stream=0):
        """The same launch on tensors that lie elsewhere: an address for each tensor, in the
        signature's order."""
        numbers = (ctypes.c_uint64 * len(addresses))(*addresses)
        self._device._lib.tilec_bound_launch_at(self._handle, numbers, len(addresses),
                                                self._device.stream(stream) if stream else 0)


class Graph:
    """Bound launches that run one after the other, as one CUDA graph."""

    def __init__(self, *launches, device=None):
        on = device or launches[0]._device
        self._device, self._lib = on, on._lib
        self._handle = ctypes.c_void_p()
        self._lib.tilec_graph_create(on._handle, ctypes.byref(self._handle))
        for launch in launches:
            self.add(launch)

    def __del__(self):
        if getattr(self, "_handle", None):
            self._lib.tilec_graph_free(self._handle)

    def add(self, launch):
        """Behind those before; gives its number."""
        number = ctypes.c_size_t()
        self._lib.tilec_graph_add(self._handle, launch._handle, ctypes.byref(number))
        return number.value

    def move(self, number, *addresses):
        """Other addresses for a launch, one for each of its tensors, from the next run on."""
        numbers = (ctypes.c_uint64 * len(addresses))(*addresses)
        self._lib.tilec_graph_move(self._handle, number, numbers, len(addresses))

    def __call__(self, stream=0):
        self._lib.tilec_graph_launch(self._handle, self._device.stream(stream) if stream else 0)
