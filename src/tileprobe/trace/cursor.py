"""The cursor's segment: records of `while` loops, data-dependent nests and early returns.

Such records carry a tag (slot and iteration) and lie in the order they were written. `read` finds them,
`pair` makes intervals of one span; in a sequential program the n-th start belongs to the n-th stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tileprobe.ir.layout import BEGIN, PAYLOAD_BIT, PUSHED, Span

if TYPE_CHECKING:
    from tileprobe.trace.decode import Rows


@dataclass
class Pushed:
    """The records of all segments, ordered by row and then as they were written."""

    row: np.ndarray
    slot: np.ndarray
    iteration: np.ndarray
    clock: np.ndarray
    value: np.ndarray  # payload bits; meaningful where the slot has a payload
    lost: np.ndarray  # a row: how many records did not fit
    delay: np.ndarray | None = None  # ticks that the probes before and at a record took


def read(rows: Rows) -> Pushed:
    from tileprobe.trace.decode import walk

    layout = rows.layout
    stream = layout.streams[0]
    capacity = stream.cursor_capacity
    pushed = rows.words[:, PUSHED].astype(np.int64) if capacity else np.zeros(len(rows.words), np.int64)
    kept = np.minimum(pushed, capacity)
    segment = rows.words[:, stream.cursor_base : stream.cursor_base + 2 * capacity]
    segment = segment.reshape(len(rows.words), capacity, 2)
    row, at = np.nonzero(np.arange(capacity) < kept[:, None])
    tags, words = segment[row, at, 0], segment[row, at, 1]
    payload = (tags & np.uint64(PAYLOAD_BIT)) != 0
    value = np.zeros(len(tags), np.uint64)
    value[:-1][payload[1:]] = words[1:][payload[1:]]  # a payload follows its record
    clock_at = ~payload
    row, tags, words, value = row[clock_at], tags[clock_at], words[clock_at], value[clock_at]
    if layout.clock_bits == 32:
        low = (words & np.uint64(0xFFFFFFFF)).astype(np.int64)
        clock = walk(low, row, rows.words[:, BEGIN].astype(np.int64))
    else:
        clock = words.astype(np.int64)
    slot = (tags & np.uint64(PAYLOAD_BIT - 1)).astype(np.int64)
    iteration = (tags >> np.uint64(32)).astype(np.uint32).view(np.int32).astype(np.int64)
    return Pushed(row, slot, iteration, clock, value, pushed - kept)


def pair(rows: Rows, pushed: Pushed, span: Span) -> dict[str, np.ndarray]:
    """The intervals of one span: its n-th start in a program with its n-th stop."""
    from tileprobe.trace.decode import columns_of

    layout = rows.layout
    starts, stops = (np.flatnonzero(pushed.slot == slot) for slot in (span.start, span.stop))
    width = len(pushed.slot) + 1
    start_key = pushed.row[starts] * width + _ordinal(pushed.row[starts])
    stop_key = pushed.row[stops] * width + _ordinal(pushed.row[stops])
    _, a, b = np.intersect1d(start_key, stop_key, assume_unique=True, return_indices=True)
    begin, end = starts[a], stops[b]
    slot = layout.slots[span.start]
    value = np.full(len(begin), np.nan)
    if slot.payload:
        dtype = np.float64 if slot.payload == "f64" else np.int64
        value = pushed.value[begin].view(dtype).astype(np.float64)
    iteration = pushed.iteration[begin] + (span.start_ahead if slot.loops else 0)
    outer = _runs(rows, pushed, slot.loops)[begin]
    columns = columns_of(
        rows, span, pushed.row[begin], pushed.clock[begin], pushed.clock[end], iteration, outer, value
    )
    if pushed.delay is not None:
        columns["start_corrected"] = columns["start"] - pushed.delay[begin]
        columns["stop_corrected"] = columns["stop"] - pushed.delay[end]
    return columns


def _ordinal(row: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each row (rows ascending)."""
    if not len(row):
        return row
    first = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    return np.arange(len(row)) - np.repeat(first, np.diff(np.r_[first, len(row)]))


def _runs(rows: Rows, pushed: Pushed, loops: tuple[int, ...]) -> np.ndarray:
    """How often the innermost loop had been entered before each record, in its program.

    A run begins where the iteration steps back: records of one loop come with ascending iterations.
    """
    runs = np.zeros(len(pushed.row), np.int64)
    if not loops:
        return runs
    mine = np.array([slot.loops == loops for slot in rows.layout.slots], bool)[pushed.slot]
    at = np.flatnonzero(mine)
    row, iteration = pushed.row[at], pushed.iteration[at]
    same = np.r_[False, row[1:] == row[:-1]] if len(at) else np.zeros(0, bool)
    back = np.r_[False, iteration[1:] < iteration[:-1]] if len(at) else same
    steps = np.cumsum(same & back)
    first = np.flatnonzero(~same)
    runs[at] = steps - np.repeat(steps[first], np.diff(np.r_[first, len(at)])) if len(at) else 0
    return runs
