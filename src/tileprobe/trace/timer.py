"""A clock that the whole machine shares, and what it says about counters that are too narrow to tell the time.

In come the first clocks of streams with the shared time at that moment; out go the same clocks, each in its turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprobe.ir.machine import Clock, GlobalTimer


@dataclass(frozen=True)
class Problem:
    """Something that the records leave in doubt: what ("wraps", "drift"), where, and how many streams have it."""

    what: str
    text: str
    count: int
    launch: int = -1
    unit: int = -1


def in_their_turns(
    begin: np.ndarray, shared: np.ndarray, unit: np.ndarray, clock: Clock, timer: GlobalTimer
) -> np.ndarray:
    """The first clocks of streams as if the counter were wide: counted on from the earliest stream of each unit.
    A stream that did not read the shared timer keeps what it has."""
    order = np.lexsort((shared, shared == 0, unit))
    _, first, group = np.unique(unit[order], return_index=True, return_inverse=True)
    early = np.empty(len(unit), np.int64)
    early[order] = order[first][group]
    expected = begin[early] + (shared - shared[early]) * (clock.hz / timer.hz)
    turn = 1 << clock.bits
    turns = np.round((expected - begin) / turn).astype(np.int64)
    return begin + np.where(shared != 0, turns * turn, 0)
