"""What a launch recorded, what sampling left out on purpose, and what did not fit.

Trip counts tell how many iterations there were. Where an inner loop's trip count was not stored (its outer
iteration was left out), and where a record stands in a branch, the recorded iterations stand for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tileprobe.trace.model import Losses

if TYPE_CHECKING:
    from tileprobe.trace.cursor import Pushed
    from tileprobe.trace.decode import Rows


@dataclass
class _Passes:
    """Iterations of a loop in each row: all, chosen by sampling, and those with a place in the buffer."""

    total: np.ndarray
    chosen: np.ndarray
    placed: np.ndarray


def count_losses(rows: Rows, pushed: Pushed, sizes: Sequence[int], blocks: int) -> list[Losses]:
    """The losses of each launch."""
    loops: dict[int, _Passes] = {}
    for loop in rows.layout.loops:  # ids grow inwards: a parent is known before its children
        if not loop.cursor:
            loops[loop.id] = _passes(rows, loops, loop.id)
    count = len(rows.words)
    kept, chosen, total = np.zeros(count), np.zeros(count), np.zeros(count)
    for slot in rows.layout.slots:
        if slot.cursor:
            continue
        here = _sum(rows.slot(slot) >= 0)
        passes = loops[slot.loops[-1]] if slot.loops else None
        kept += here
        chosen += here if passes is None else here * _ratio(passes.chosen, passes.placed)
        total += here if passes is None else here * _ratio(passes.total, passes.placed)
    segment = np.bincount(pushed.row, minlength=count)[:count]
    for part in (kept, chosen, total):
        part += segment
    chosen += pushed.lost
    total += pushed.lost
    return [_launch(rows, n, size, blocks, kept, chosen, total) for n, size in enumerate(sizes)]


def _launch(
    rows: Rows, launch: int, size: int, blocks: int, kept: np.ndarray, chosen: np.ndarray, total: np.ndarray
) -> Losses:
    """Sums the rows of one launch; programs without a block count as much as the mean of the others."""
    mine = rows.launch == launch
    recorded = int(mine.sum())
    if not recorded:
        return Losses()
    have, would, all_of_it = (float(part[mine].sum()) for part in (kept, chosen, total))
    wanted = max(rows.sampling.wanted(size), recorded)
    no_room = (wanted - recorded) * would / recorded
    left_out = (size - wanted) * all_of_it / recorded + (wanted - recorded) * (all_of_it - would) / recorded
    return Losses(
        kept=round(have),
        sampled_out=round(all_of_it - would + left_out),
        lost=round(would - have + no_room),
    )


def _passes(rows: Rows, loops: dict[int, _Passes], loop: int) -> _Passes:
    this = rows.layout.loops[loop]
    every = rows.sampling.loop(loop)
    trips = rows.trips(loop)
    chosen = every.selected(trips)
    placed = np.minimum(chosen, this.capacity)
    total, picked, kept = (_sum(part) for part in (trips, chosen, placed))
    if not this.loops:
        return _Passes(total, picked, kept)
    outer = loops[this.loops[-1]]
    return _Passes(
        total * _ratio(outer.total, outer.placed), picked * _ratio(outer.chosen, outer.placed), kept
    )


def _ratio(part: np.ndarray, of: np.ndarray) -> np.ndarray:
    return np.divide(part, of, out=np.zeros(len(part)), where=np.asarray(of) > 0)


def _sum(values: np.ndarray) -> np.ndarray:
    """Over everything but the rows."""
    return values.sum(axis=tuple(range(1, values.ndim)))
