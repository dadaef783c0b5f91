"""Memory for the records of a GPU's launches: zeroed in the launch's own stream, read back once that is done, kept for
the next launch. Parameters of a launch stay on the host, where the launcher makes the kernel's table of them.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileprobe.targets.gpu.device import Device

_KEPT_BYTES = 256 * 2**20  # on each GPU, of memory that waits for the next launch
_WORD = 8


@dataclass(frozen=True, order=True)
class Piece:
    """Memory of one GPU."""

    size: int
    address: int
    device: int = field(compare=False)


class _Local(threading.local):
    stream: int = 0
    taken: list[GpuBuffer] | None = None


class GpuBuffer:
    """The blocks of one launch."""

    def __init__(self, memory: GpuMemory, piece: Piece, shape: tuple[int, int], stream: int) -> None:
        self._memory, self._piece, self._shape, self._stream = memory, piece, shape, stream
        self.address = piece.address
        self.on_read: Callable[[np.ndarray], None] | None = None  # told what was read

    def read(self) -> np.ndarray:
        words = np.empty(self._shape, np.uint64)
        self._memory.device().read(self.address, words, self._stream)
        if self.on_read is not None:
            self.on_read(words)
        return words

    def give_back(self, used: Sequence[slice] | None = None) -> None:
        self._memory.keep(self._piece)


class Held:
    """Words of the host, by their address."""

    def __init__(self, words: np.ndarray) -> None:
        self.words = words
        self.address: int = words.__array_interface__["data"][0]


class GpuMemory:
    """All buffers of the process. `device` gives the GPU that the thread launches on."""

    def __init__(self, device: Callable[[], Device]) -> None:
        self.device = device
        self._local = _Local()
        self._free: defaultdict[int, list[Piece]] = defaultdict(list)  # by device, the smallest first
        self._lock = threading.Lock()

    @contextmanager
    def on(self, stream: int) -> Iterator[list[GpuBuffer]]:
        """Buffers that this thread takes in the block are those of a launch in `stream`; it is given them."""
        local = self._local
        before = local.stream, local.taken
        local.stream, local.taken = stream, []
        try:
            yield local.taken
        finally:
            local.stream, local.taken = before

    def take(self, blocks: int, block_words: int) -> GpuBuffer:
        device, stream = self.device(), self._local.stream
        piece = self.piece(_WORD * blocks * block_words)
        try:
            device.zero(piece.address, _WORD * blocks * block_words, stream)
        except BaseException:
            self.keep(piece)
            raise
        buffer = GpuBuffer(self, piece, (blocks, block_words), stream)
        if self._local.taken is not None:
            self._local.taken.append(buffer)
        return buffer

    def piece(self, size: int) -> Piece:
        """Memory of the current GPU, of at least that size; `keep` takes it back."""
        device = self.device()
        number = device.number()
        with self._lock:
            free = self._free[number]
            for n, piece in enumerate(free):
                if piece.size >= size:
                    return free.pop(n)
        rounded = 1 << max(12, (size - 1).bit_length())  # few sizes, so that memory is used again
        return Piece(rounded, device.allocate(rounded), number)

    def keep(self, piece: Piece) -> None:
        """For the next launch. Of too much the smallest goes: the largest serve every launch."""
        over: list[Piece] = []
        with self._lock:
            free = self._free[piece.device]
            insort(free, piece)
            while len(free) > 1 and sum(one.size for one in free) > _KEPT_BYTES:
                over.append(free.pop(0))
        for one in over:
            self.device().free(one.address)

    def put(self, words: np.ndarray) -> Any:
        return Held(words)
