"""Tensors in a GPU's memory without torch: what Triton needs of one, and its data back on the host.

In comes an array, and the name of its dtype where NumPy has none (bfloat16: the raw bits as uint16).
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import numpy as np

from tileprobe.targets.gpu.device import Device

_HELD_AS = {
    "bfloat16": "uint16",
    "float8e5": "uint8",
    "float8e4nv": "uint8",
}  # Triton's name, NumPy's type of the bits


class DeviceArray:
    """A copy of an array, dense, row by row."""

    def __init__(self, device: Device, data: Any, dtype: Any = None) -> None:
        name = None if dtype is None else str(dtype).split(".")[-1]
        held = np.ascontiguousarray(np.asarray(data, None if name is None else _HELD_AS.get(name, name)))
        self.dtype = name or str(held.dtype)
        self.shape, self.ndim, self.device = held.shape, held.ndim, "cuda"
        self._numpy, self._device = held.dtype, device
        device.number()
        self._address = device.allocate(max(held.nbytes, 1))
        weakref.finalize(self, _free, device, self._address)
        device.write(self._address, held, 0)
        device.synchronise(0)

    def data_ptr(self) -> int:
        return self._address

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def element_size(self) -> int:
        return self._numpy.itemsize

    def stride(self, axis: int | None = None) -> Any:
        steps = [int(np.prod(self.shape[n + 1 :])) for n in range(self.ndim)]
        return tuple(steps) if axis is None else steps[axis]

    def numpy(self) -> np.ndarray:
        """The data as it is now, once launches in the default stream are done."""
        found = np.empty(self.shape, self._numpy)
        if found.nbytes:
            self._device.read(self._address, found, 0)
        return found


def _free(device: Device, address: int) -> None:
    with contextlib.suppress(Exception):  # the driver may be gone at the end of a process
        device.free(address)
