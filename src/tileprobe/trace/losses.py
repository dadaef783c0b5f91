"""What a launch recorded, what sampling left out on purpose, and what did not fit or was overwritten.

Trip counts tell how many iterations there were. Where an inner loop's trip count was not stored (its outer
iteration was left out), and where a record stands in a branch, the recorded iterations stand for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileprobe.ir.sampling import Sampling
from tileprobe.trace.blocks import Rows, fixed_loops
from tileprobe.trace.cursor import Pushed
from tileprobe.trace.model import Losses


@dataclass
class _Passes:
    """Iterations of a loop in each row: all, chosen by sampling, and those with a place in the buffer."""

    total: np.ndarray
    chosen: np.ndarray
    placed: np.ndarray


@dataclass
class _Counts:
    """Records of each row of a stream: there, chosen by sampling, all."""

    rows: Rows
    kept: np.ndarray
    chosen: np.ndarray
    total: np.ndarray


def count_losses(
    streams: Sequence[Rows],
    pushed: Sequence[Pushed],
    weights: Sequence[np.ndarray],
    sizes: Sequence[int],
) -> list[Losses]:
    """The losses of each launch: the sum over its streams. `weights` say how many each record of a segment stands
    for."""
    counts = [_counts(*each) for each in zip(streams, pushed, weights)]
    return [_launch(counts, streams[0].sampling, n, size) for n, size in enumerate(sizes)]


def standing_programs(streams: Sequence[Rows], sizes: Sequence[int]) -> np.ndarray:
    """For each launch how many programs a recorded one stands for."""
    found = np.ones(len(sizes))
    for launch, size in enumerate(sizes):
        programs = np.unique(np.concatenate([rows.program[rows.launch == launch] for rows in streams]))
        if len(programs):
            found[launch] = max(size, len(programs)) / len(programs)
    return found


def _counts(rows: Rows, pushed: Pushed, weights: np.ndarray) -> _Counts:
    loops: dict[int, _Passes] = {}
    for loop in fixed_loops(rows.layout, rows.stream.id):
        loops[loop.id] = _passes(rows, loops, loop.id)
    count = len(rows)
    kept, chosen, total = np.zeros(count), np.zeros(count), np.zeros(count)
    for slot in rows.layout.fixed_slots(rows.stream.id):
        here = _sum(rows.slot(slot) >= 0)
        passes = loops[slot.loops[-1]] if slot.loops else None
        kept += here
        chosen += here if passes is None else here * _ratio(passes.chosen, passes.placed)
        total += here if passes is None else here * _ratio(passes.total, passes.placed)
    segment = np.bincount(pushed.row, minlength=count)[:count]
    for part in (kept, chosen, total):
        part += segment
    chosen += pushed.lost
    stood_for = np.bincount(pushed.row, weights, count)
    total += np.maximum(pushed.lost, stood_for - segment)
    return _Counts(rows, kept, chosen, total)


def _launch(counts: Sequence[_Counts], sampling: Sampling, launch: int, size: int) -> Losses:
    """Sums the rows of one launch; programs without a block count as much as the mean of the others."""
    have = would = all_of_it = 0.0
    programs: list[np.ndarray] = []
    for part in counts:
        mine = part.rows.launch == launch
        programs.append(part.rows.program[mine])
        have += float(part.kept[mine].sum())
        would += float(part.chosen[mine].sum())
        all_of_it += float(part.total[mine].sum())
    recorded = len(np.unique(np.concatenate(programs)))
    if not recorded:
        return Losses()
    wanted = max(sampling.wanted(size), recorded)
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
