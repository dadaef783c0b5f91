"""Iterations without records between two records: beyond a loop's room, sampled out, or lost of a segment.

In come the records of rows in execution order; out goes, for each of them, how many iterations ran since the record
before it and left nothing. A gap across them is as long as they took.
"""

from __future__ import annotations

import numpy as np

from tileprobe.ir.layout import Loop
from tileprobe.ir.sampling import Every
from tileprobe.trace.blocks import Rows, fixed_loops, frames
from tileprobe.trace.cursor import InSequence, Pushed

UNKNOWN = -1


def unseen(rows: Rows, pushed: Pushed, records: InSequence) -> np.ndarray:
    """How many iterations lie between each record and the one before it; `UNKNOWN` where some may."""
    counts, unknown = unseen_by_loop(rows, pushed, records)
    return np.where(unknown, UNKNOWN, sum(counts.values(), np.zeros(len(unknown), np.int64)))


def unseen_by_loop(
    rows: Rows, pushed: Pushed, records: InSequence
) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """The same for each loop that has any, and where more may lie."""
    word = words_of(rows, pushed, records)
    unknown = np.zeros(len(word), bool)
    counts = {}
    for loop in fixed_loops(rows.layout, rows.stream.id):
        every, trips = rows.sampling.loop(loop.id), rows.trips(loop.id)
        placed = np.minimum(every.selected(trips), loop.capacity)
        if (placed != trips).any():
            counts[loop.id] = _count(rows, loop, records.row, word, placed, unknown)
    if len(pushed.row):
        unknown |= _in_segment(rows, pushed, records.row, word)
    return counts, unknown


def words_of(rows: Rows, pushed: Pushed, records: InSequence) -> np.ndarray:
    """The word that each record lies at; -1 for those of the segment."""
    return np.r_[np.nonzero(rows.recorded_words)[1], np.full(len(pushed.row), -1)][records.order]


def _count(
    rows: Rows, loop: Loop, row: np.ndarray, word: np.ndarray, placed: np.ndarray, unknown: np.ndarray
) -> np.ndarray:
    """The iterations of one loop. Neighbours are in one run of it, or one ends a run and another begins one."""
    every = rows.sampling.loop(loop.id)
    trips = rows.trips(loop.id)
    first = np.broadcast_to(np.asarray(rows.first(loop.id)), trips.shape).reshape(len(rows), -1)
    numbers = np.full((1, rows.stream.words + 1), -1)  # the last place is that of records of the segment
    held = frames(numbers, rows.layout, loop)
    held[...] = np.arange(held[..., 0].size).reshape((*held.shape[:-1], 1))
    now = numbers[0][word]
    before = np.r_[-1, now[:-1]][: len(now)]
    run, earlier = now // loop.capacity, before // loop.capacity
    together = (now >= 0) & (before >= 0) & (run == earlier)
    step = (now - before) * every.stride - 1
    head = np.where(now >= 0, _iteration(first, row, now, loop, every), 0)
    last = _iteration(first, row, before, loop, every)
    total = trips.reshape(len(rows), -1)[row, np.maximum(earlier, 0)]
    tail = np.where(before >= 0, np.maximum(total - 1 - last, 0), 0)
    nothing = ((placed == 0) & (trips > 0)).reshape(len(rows), -1).any(axis=1)
    unknown |= nothing[row] & ((now < 0) | (before < 0) | ~together)
    return np.where(together, np.maximum(step, 0), head + tail)


def _iteration(
    first: np.ndarray, row: np.ndarray, number: np.ndarray, loop: Loop, every: Every
) -> np.ndarray:
    """The iteration that lies in a frame of a loop."""
    at = np.maximum(number, 0)
    return first[row, at // loop.capacity] + (at % loop.capacity) * every.stride


def _in_segment(rows: Rows, pushed: Pushed, row: np.ndarray, word: np.ndarray) -> np.ndarray:
    """Records of a segment that has lost some, or of loops that are sampled: how many iterations lie between them is
    not said."""
    sampled = any(loop.cursor and rows.sampling.loop(loop.id) != Every() for loop in rows.layout.loops)
    partly = np.ones(len(rows), bool) if sampled else pushed.lost > 0
    outside = word >= 0
    return partly[row] & ~(outside & np.r_[True, outside[:-1]])
