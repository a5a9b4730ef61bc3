"""Clocks and power while something runs: NVML through ctypes, sampled by a thread.

A ratio says who is faster; the clock and the power say why. Reading only: nothing is set.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import statistics
import threading
import time

_SM_CLOCK, _MEMORY_CLOCK, _INSTANT_POWER = 1, 2, 186
_POWER_CAP_BITS = 0x4 | 0x80  # software power cap, hardware power brake


class _FieldValue(ctypes.Structure):
    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint),
                ("timestamp", ctypes.c_longlong), ("latency", ctypes.c_longlong),
                ("type", ctypes.c_uint), ("status", ctypes.c_uint), ("value", ctypes.c_ulonglong)]


class Sampler:
    """`start`s and `stop`s; in between every sample is filed under `label`."""

    def __init__(self, interval=0.01):
        self.interval, self.label, self.samples, self._run = interval, None, {}, False
        self._thread = None
        try:
            self._c = ctypes.CDLL("libnvidia-ml.so.1")
            self._device = ctypes.c_void_p()
            if self._c.nvmlInit_v2() != 0:
                raise OSError("nvmlInit failed")
            if self._c.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device)) != 0:
                raise OSError("no device")
        except OSError:
            self._c = None  # the table shows dashes

    def driver(self):
        text = ctypes.create_string_buffer(96)
        if self._c and self._c.nvmlSystemGetDriverVersion(text, 96) == 0:
            return text.value.decode()
        return "?"

    def power_limit_watts(self):
        value = ctypes.c_uint()
        if self._c and self._c.nvmlDeviceGetEnforcedPowerLimit(
                self._device, ctypes.byref(value)) == 0:
            return value.value / 1000
        return None

    def _sample(self):
        value, watts = ctypes.c_uint(), None
        mhz = None
        if self._c.nvmlDeviceGetClockInfo(self._device, _SM_CLOCK, ctypes.byref(value)) == 0:
            mhz = value.value
        field = _FieldValue(field=_INSTANT_POWER)
        if self._c.nvmlDeviceGetFieldValues(self._device, 1, ctypes.byref(field)) == 0 \
                and field.status == 0:
            watts = (field.value & 0xFFFFFFFF) / 1000
        elif self._c.nvmlDeviceGetPowerUsage(self._device, ctypes.byref(value)) == 0:
            watts = value.value / 1000
        bits = ctypes.c_ulonglong()
        capped = None
        if self._c.nvmlDeviceGetCurrentClocksThrottleReasons(
                self._device, ctypes.byref(bits)) == 0:
            capped = bool(bits.value & _POWER_CAP_BITS)
        return mhz, watts, capped

    def start(self):
        if not self._c or self._thread:
            return
        self._run = True
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self):
        while self._run:
            label = self.label
            if label is not None:
                sample = self._sample()
                if self.label == label:  # the same thing ran before and after
                    self.samples.setdefault(label, []).append(sample)
            time.sleep(self.interval)

    def stop(self):
        self._run = False
        if self._thread:
            self._thread.join()
            self._thread = None

    def summary(self, label):
        """Medians of one label; empty where nothing was read."""
        rows = self.samples.get(label, [])
        out = {}
        for i, name in enumerate(["sm_mhz", "watts"]):
            values = [r[i] for r in rows if r[i] is not None]
            if values:
                out[name] = round(statistics.median(values))
        capped = [r[2] for r in rows if r[2] is not None]
        if capped:
            out["power_capped"] = round(sum(capped) / len(capped), 2)
        return out
