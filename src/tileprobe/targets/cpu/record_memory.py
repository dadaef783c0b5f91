"""Memory for the records of CPU kernels: zeroed, with its pages in place, and kept for the next launch.

A record of a 64-bit clock counts as written when it is not zero, so a buffer is cleared where it was used before it
is handed out again.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from tileprobe.targets.cpu.moving import Moves

_LINE = 8  # words of a cache line: no two programs share one
_KEPT = 16  # buffers that wait for the next launch: as many threads may launch at once
_KEPT_BYTES = 256 * 2**20


class CpuBuffer:
    """`shape` is how many blocks of how many words whoever has it sees in it."""

    __slots__ = ("_memory", "_words", "address", "shape", "size")

    def __init__(self, memory: CpuMemory, words: Held, shape: tuple[int, int]) -> None:
        self._memory, self._words, self.address = memory, words, words.address
        self.size, self.shape = len(words.words), shape

    def read(self) -> np.ndarray:
        return self._words.words[: self.shape[0] * self.shape[1]].reshape(self.shape)

    def give_back(self, used: Sequence[slice] | None = None) -> None:
        blocks = self.read()
        for part in (slice(None),) if used is None else used:
            blocks[:, part] = 0
        self._memory.keep(self)

    def move(self, moves: Moves, out: int) -> bool:
        if moves.run(moves.address, self.address, self.shape[0], out):
            return False
        self._memory.keep(self)
        return True


class Held:
    """Words that a kernel may read as long as this is held."""

    __slots__ = ("address", "words")

    def __init__(self, words: np.ndarray) -> None:
        self.words = words
        self.address: int = words.__array_interface__["data"][0]


class CpuMemory:
    """All buffers of the process; launches may overlap."""

    def __init__(self) -> None:
        self._last: list[
            CpuBuffer
        ] = []  # the one that was given back last, if nobody has it; no lock is needed
        self._free: list[CpuBuffer] = []  # smallest first
        self._sizes: list[int] = []  # of these, in words
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self.forked)

    def take(self, blocks: int, block_words: int) -> CpuBuffer:
        shape, words = (blocks, block_words), blocks * block_words
        try:  # launches mostly come one by one and are alike
            last = self._last.pop()
        except IndexError:
            pass
        else:
            if last.size >= words:
                last.shape = shape
                return last
            self._store(last)
        with self._lock:
            place = bisect_left(self._sizes, words)
            if place < len(self._sizes):
                del self._sizes[place]
                found = self._free.pop(place)
                found.shape = shape
                return found
        return CpuBuffer(self, _fresh(words), shape)

    def keep(self, buffer: CpuBuffer) -> None:
        """For the next launch. Of too many the smallest go: the largest serve every launch."""
        if self._last:
            self._store(buffer)
        else:
            self._last.append(buffer)

    def _store(self, buffer: CpuBuffer) -> None:
        with self._lock:
            place = bisect_left(self._sizes, buffer.size)
            self._sizes.insert(place, buffer.size)
            self._free.insert(place, buffer)
            while len(self._free) > _KEPT or (len(self._free) > 1 and 8 * sum(self._sizes) > _KEPT_BYTES):
                del self._free[0], self._sizes[0]

    def forked(self) -> None:
        """In a forked child: a thread that does not exist there may have held the lock."""
        self._lock = threading.Lock()

    def put(self, words: np.ndarray) -> Held:
        return Held(words)

    def moves(self, block_words: int, trips: Sequence[tuple[Sequence[int], int]], words: np.ndarray) -> Moves:
        return Moves(block_words, trips, words)


def _fresh(words: int) -> Held:
    raw = np.ones(words + _LINE, np.uint64)  # written once, so that every page is there
    skip = (-raw.ctypes.data % (8 * _LINE)) // 8
    buffer = raw[skip : skip + words]
    buffer.fill(0)
    return Held(buffer)
