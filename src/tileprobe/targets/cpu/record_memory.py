"""Memory for the records of CPU kernels: zeroed, with its pages in place, and kept for the next launch.

A record of a 64-bit clock counts as written when it is not zero, so a buffer is cleared where it was used before it
is handed out again.
"""

from __future__ import annotations

import threading

import numpy as np

_LINE = 8  # words of a cache line: no two programs share one
_KEPT = 4  # buffers that wait for the next launch


class CpuBuffer:
    def __init__(self, memory: CpuMemory, words: np.ndarray, shape: tuple[int, int]) -> None:
        self._memory, self._words = memory, words
        self._blocks = words[: shape[0] * shape[1]].reshape(shape)
        self.address = self._blocks.ctypes.data

    def read(self) -> np.ndarray:
        return self._blocks

    def give_back(self, used: np.ndarray | None = None) -> None:
        if used is None:
            self._blocks.fill(0)
        else:
            self._blocks[:, used] = 0
        self._memory.keep(self._words)


class Held:
    """Words that a kernel may read as long as this is held."""

    def __init__(self, words: np.ndarray) -> None:
        self.words = words
        self.address = words.ctypes.data


class CpuMemory:
    """All buffers of the process; launches may overlap."""

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []
        self._lock = threading.Lock()

    def take(self, blocks: int, block_words: int) -> CpuBuffer:
        words = blocks * block_words
        return CpuBuffer(self, self._reused(words) if self._free else _fresh(words), (blocks, block_words))

    def _reused(self, words: int) -> np.ndarray:
        with self._lock:
            fitting = [n for n, held in enumerate(self._free) if len(held) >= words]
            if fitting:
                return self._free.pop(min(fitting, key=lambda n: len(self._free[n])))
        return _fresh(words)

    def keep(self, words: np.ndarray) -> None:
        with self._lock:
            self._free.append(words)
            self._free.sort(key=len)
            del self._free[:-_KEPT]

    def put(self, words: np.ndarray) -> Held:
        return Held(words)


def _fresh(words: int) -> np.ndarray:
    raw = np.ones(words + _LINE, np.uint64)  # written once, so that every page is there
    skip = (-raw.ctypes.data % (8 * _LINE)) // 8
    buffer = raw[skip : skip + words]
    buffer.fill(0)
    return buffer
