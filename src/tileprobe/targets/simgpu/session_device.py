"""Memory and time of a simulated GPU as a session asks for them: host memory, and the time of the chip, or
instructions where launches are not timed."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tileprobe.targets.gpu.device import Properties
from tileprobe.targets.simgpu.blocks import aligned
from tileprobe.targets.simgpu.device import Counter


class SimDevice:
    """Keeps the protocol of `targets/gpu/device.py`. Launches have ended when they return: nothing is waited for."""

    def __init__(self) -> None:
        self._held: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()

    def number(self) -> int:
        return self._driver().get_current_device()

    def _driver(self) -> Any:
        from triton.runtime import driver

        return driver.active

    def properties(self) -> Properties:
        machine = self._driver().machine
        return Properties(machine.name, machine.multiprocessors, machine.clock_mhz * 1e6)

    def spans(self) -> list[tuple[int, int]]:
        """The first byte and the end of all memory that records and tables lie in."""
        with self._lock:
            return [(at, at + held.nbytes) for at, held in self._held.items()]

    def allocate(self, size: int) -> int:
        held = aligned(size)
        with self._lock:
            self._held[held.ctypes.data] = held
        return held.ctypes.data

    def free(self, address: int) -> None:
        with self._lock:
            del self._held[address]

    def _bytes(self, address: int, size: int) -> np.ndarray:
        with self._lock:
            return self._held[address].view(np.uint8)[:size]

    def zero(self, address: int, size: int, stream: int) -> None:
        self._bytes(address, size)[:] = 0

    def write(self, address: int, words: np.ndarray, stream: int) -> None:
        self._bytes(address, words.nbytes)[:] = words.reshape(-1).view(np.uint8)

    def read(self, address: int, words: np.ndarray, stream: int) -> None:
        words.reshape(-1).view(np.uint8)[:] = self._bytes(address, words.nbytes)

    def record(self, stream: int) -> Any:
        return Counter.passed_ns

    def elapsed_ns(self, first: Any, last: Any) -> float:
        return float(last - first)

    def synchronise(self, stream: int) -> None: ...

    def capturing(self, stream: int) -> bool:
        return False
