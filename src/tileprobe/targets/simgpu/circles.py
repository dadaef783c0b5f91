"""Programs that go round in circles: everything that decides over what they do next is as it was before.

Registers, shared and local memory, barriers and the tensors of the launch are looked at from time to time. Where all of
them are as they were at an earlier look, what follows is what followed then, without end: a loop that waits for what
nobody does. A loop that counts never comes back to where it was; for that there is a limit of instructions.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence

import numpy as np

from tileprobe.targets.simgpu.blocks import Block, Worker
from tileprobe.targets.simgpu.engine import layout as at

_LARGEST = 1 << 30  # bytes of tensors that are looked at
_COUNTERS = slice(at.W_STEPS // 8, at.W_CYCLE // 8 + 1)  # of a warp: they go on counting


class Circles:
    """Keeps one look to compare later ones with, the first, second, fourth and so on (Brent's way to find a cycle)."""

    def __init__(self) -> None:
        self._kept, self._at, self._looks, self._next = (b"", b""), 0, 0, 1

    def closed(self, workers: Sequence[Worker], issued: int) -> int:
        """After how many instructions these programs were where they had been; 0 where they were not."""
        programs = _programs(workers)
        if programs == self._kept[0] and _memory(workers) == self._kept[1] != b"":
            return issued - self._at
        self._looks += 1
        if self._looks == self._next:
            self._kept, self._at, self._next = (programs, _memory(workers)), issued, 2 * self._next
        return 0


def _programs(workers: Sequence[Worker]) -> bytes:
    digest = hashlib.blake2b()
    for worker in workers:
        digest.update(worker.cluster.tobytes())
        for block in worker.blocks:
            _add(digest, block)
    return digest.digest()


def _add(digest: hashlib.blake2b, block: Block) -> None:
    warps = block.warps.view(np.int64).reshape(-1, block.warp_bytes // 8).copy()
    warps[:, _COUNTERS] = 0
    pending = int(block.cta.view(np.int64)[at.CTA_ASYNC_COUNT // 8])
    place = block.cta.view(np.int64)[[at.CTA_X // 8, at.CTA_Y // 8, at.CTA_Z // 8]]
    barriers = block.cta[at.CTA_BARRIERS : at.CTA_MBARRIERS]
    for part in (warps, place, barriers, block.shared, block.local, block.bulk[: pending * at.ASYNC]):
        digest.update(part.tobytes())


def _memory(workers: Sequence[Worker]) -> bytes:
    """Of all that a program may touch; nothing where that is too much to look at."""
    spans = {
        (int(start), int(stop))
        for worker in workers
        for start, stop in getattr(worker, "ranges", worker.image.ranges).tolist()
    }
    if sum(stop - start for start, stop in spans) > _LARGEST:
        return b""
    digest = hashlib.blake2b()
    for start, stop in sorted(spans):
        digest.update((ctypes.c_uint8 * (stop - start)).from_address(start))
    return digest.digest()
