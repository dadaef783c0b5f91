"""Which instruction was issued when: the log of a timed launch.

Each multiprocessor writes what it issues to memory of its own, which is emptied between turns. When there is more than
somebody wanted, every second multiprocessor is left out, with all that it issued; what is kept of the others is whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprobe.targets.simgpu.blocks import address, aligned, fill
from tileprobe.targets.simgpu.engine import timed_layout as tl

_ROOM = 8192  # instructions, before the memory of a multiprocessor is emptied
EVENT = np.dtype(
    [
        ("cycle", np.int64), ("pc", np.int32), ("warp", np.int32), ("program", np.int64), ("by", np.int64),
        ("waited", np.int32), ("why", np.int32),
    ]
)  # fmt: skip
assert EVENT.itemsize == tl.LOGGED


@dataclass(frozen=True)
class Logged:
    """By multiprocessor what it issued, in order; and how many multiprocessors there are."""

    events: dict[int, np.ndarray]
    multiprocessors: int


class Log:
    def __init__(self, most: int, sms: list[np.ndarray], quantum: int) -> None:
        self._most, self._sms = most, sms
        self._held = [aligned(tl.LOGGED * (_ROOM + 4 * (quantum + 1))) for _ in sms]
        self._kept: dict[int, list[np.ndarray]] = {n: [] for n in range(len(sms))}
        for sm, held in zip(sms, self._held):
            fill(sm, {tl.S_LOG: address(held), tl.S_LOG_COUNT: 0, tl.S_LOG_ROOM: _ROOM})

    def empty(self) -> None:
        for n, kept in self._kept.items():
            fields = self._sms[n].view(np.int64)
            count = int(fields[tl.S_LOG_COUNT // 8])
            if count:
                kept.append(self._held[n][: tl.LOGGED * count].view(EVENT).copy())
                fields[tl.S_LOG_COUNT // 8] = 0
        while (
            sum(len(piece) for kept in self._kept.values() for piece in kept) > self._most
            and len(self._kept) > 1
        ):
            for n in sorted(self._kept)[1::2]:
                del self._kept[n]
                fill(self._sms[n], {tl.S_LOG_ROOM: 0})

    def whole(self) -> Logged:
        self.empty()
        events = {n: np.concatenate(kept) if kept else np.zeros(0, EVENT) for n, kept in self._kept.items()}
        return Logged(events, len(self._sms))
