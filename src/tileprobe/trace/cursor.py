"""The cursor's segment: records of `while` loops, data-dependent nests and early returns.

Such records carry a tag (slot and iteration) and lie in the order they were written. `read` finds them, `pair`
makes intervals of one span: in something that runs in order a start belongs to the stop that follows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tileprobe.ir.layout import BEGIN, CURSOR_WORDS, PAYLOAD_BIT, PUSHED, Span
from tileprobe.trace.blocks import Rows, walk


@dataclass
class Pushed:
    """The records of all segments, ordered by row and then as they were written."""

    row: np.ndarray
    slot: np.ndarray
    iteration: np.ndarray
    clock: np.ndarray
    value: np.ndarray  # payload bits
    valued: np.ndarray  # whether there is a payload
    lost: np.ndarray  # a row: how many records did not fit, or were overwritten
    delay: np.ndarray | None = None  # ticks that the probes before and at a record took
    taken: np.ndarray | None = None  # ticks that the operating system took before a record
    probes: np.ndarray | None = None  # as `delay`, by dose: before any of it was given back
    paired: dict[Span, Pairs] = field(default_factory=dict)  # those that were asked for


@dataclass
class Pairs:
    """Numbers of the records that start and end intervals, logical iteration, and which run of the loop it was."""

    begin: np.ndarray
    end: np.ndarray
    iteration: np.ndarray
    outer: np.ndarray


def read(rows: Rows) -> Pushed:
    stream, capacity = rows.stream, rows.stream.cursor_capacity
    pushed = rows.words[:, PUSHED].astype(np.int64) if capacity else np.zeros(len(rows), np.int64)
    kept = np.minimum(pushed, capacity)
    segment = rows.words[:, stream.cursor_base : stream.cursor_base + CURSOR_WORDS * capacity]
    segment = segment.reshape(len(rows), capacity, CURSOR_WORDS)
    row, at = np.nonzero(np.arange(capacity) < kept[:, None])
    if rows.layout.circular and capacity:
        oldest = np.where(pushed > capacity, pushed % capacity, 0)
        at = (at + oldest[row]) % capacity
    tags, words = segment[row, at, 0], segment[row, at, 1]
    payload = (tags & np.uint64(PAYLOAD_BIT)) != 0
    # A payload follows its record; that of a record which was overwritten follows nothing.
    owned = np.r_[(row[1:] == row[:-1]) & (tags[1:] == (tags[:-1] | np.uint64(PAYLOAD_BIT))), False]
    valued = np.roll(payload, -1) & owned[: len(row)]
    value = np.where(valued, np.roll(words, -1), np.uint64(0))
    clock_at = ~payload
    row, tags, words = row[clock_at], tags[clock_at], words[clock_at]
    wide = rows.bits == 64
    clock = words.astype(np.int64) if wide else walk(words, row, rows.words[:, BEGIN], rows.bits)
    slot = (tags & np.uint64(PAYLOAD_BIT - 1)).astype(np.int64)
    iteration = (tags >> np.uint64(32)).astype(np.uint32).view(np.int32).astype(np.int64)
    return Pushed(row, slot, iteration, clock, value[clock_at], valued[clock_at], pushed - kept)


@dataclass
class InSequence:
    """All records of rows in execution order: of fixed places and of the segment. `order` is where each one stands
    when those with places come first, then those of the segment."""

    row: np.ndarray
    clock: np.ndarray
    slot: np.ndarray
    order: np.ndarray


def in_sequence(rows: Rows, pushed: Pushed) -> InSequence:
    """Records with places come in execution order by themselves; those of the segment are put among them by clock."""
    row, at = np.nonzero(rows.recorded_words)
    all_rows = np.r_[row, pushed.row]
    clock, slot = np.r_[rows.clocks[row, at], pushed.clock], np.r_[rows.slot_words[at], pushed.slot]
    order = np.lexsort((clock, all_rows)) if len(pushed.row) else np.arange(len(row))
    return InSequence(all_rows[order], clock[order], slot[order], order)


def pair(rows: Rows, pushed: Pushed, span: Span) -> Pairs:
    """The intervals of one span: each start with the next stop of the same logical iteration, if no other start
    comes before it."""
    if span not in pushed.paired:
        pushed.paired[span] = _pair(rows, pushed, span)
    return pushed.paired[span]


def _pair(rows: Rows, pushed: Pushed, span: Span) -> Pairs:
    slots = rows.layout.slots
    loops = slots[span.start].loops
    run = _runs(rows, pushed, loops)
    if span.start == span.stop:
        begin = np.flatnonzero(pushed.slot == span.start)
        return Pairs(
            begin, begin, _logical(pushed, begin, loops, span.start_ahead, span.start_peeled), run[begin]
        )
    starts, stops = (np.flatnonzero(pushed.slot == slot) for slot in (span.start, span.stop))
    first = _logical(pushed, starts, loops, span.start_ahead, span.start_peeled)
    last = _logical(pushed, stops, slots[span.stop].loops, span.stop_ahead, span.stop_peeled)
    at, number = np.r_[starts, stops], np.r_[first, last]
    is_start = np.arange(len(at)) < len(starts)
    order = np.lexsort((at, number, pushed.row[at]))
    at, number, is_start, row = at[order], number[order], is_start[order], pushed.row[at[order]]
    follows = (row[1:] == row[:-1]) & (number[1:] == number[:-1]) & is_start[:-1] & ~is_start[1:]
    begin = np.flatnonzero(follows)
    begin = begin[np.argsort(at[begin], kind="stable")]
    start, stop = at[begin], at[begin + 1]
    if span.start_peeled < 0:
        return Pairs(start, stop, number[begin], run[start])
    if span.stop_peeled < 0:
        run = _runs(rows, pushed, slots[span.stop].loops)
    return Pairs(start, stop, number[begin], run[stop])


def _logical(pushed: Pushed, at: np.ndarray, loops: tuple[int, ...], ahead: int, peeled: int) -> np.ndarray:
    if peeled >= 0:
        return np.full(len(at), ahead, np.int64)
    return pushed.iteration[at] + (ahead if loops else 0)


def _runs(rows: Rows, pushed: Pushed, loops: tuple[int, ...]) -> np.ndarray:
    """How often the innermost loop had been entered before each record, in its stream instance.

    A new run begins behind a record from outside the loop, where the iteration steps back, and where a slot comes
    again with the iteration it had: a run has each slot once an iteration, but may have one iteration only.
    """
    runs = np.zeros(len(pushed.row), np.int64)
    if not loops:
        return runs
    around = [slot.loops for slot in rows.layout.slots]
    at = np.flatnonzero(np.array([other == loops for other in around], bool)[pushed.slot])
    if not len(at):
        return runs
    outside = np.array([other[: len(loops)] != loops for other in around], bool)[pushed.slot]
    row, iteration, left = pushed.row[at], pushed.iteration[at], np.cumsum(outside)[at]
    new = row[1:] != row[:-1]
    apart = np.r_[True, new | (iteration[1:] < iteration[:-1]) | (left[1:] != left[:-1])]
    piece = np.cumsum(apart) - 1
    again = _came_again(piece, pushed.slot[at], iteration)
    # the runs before a piece: as many as the pieces before it in its row have
    run = np.maximum.accumulate(piece * (len(at) + 1) + again) - piece * (len(at) + 1)
    last = np.r_[np.flatnonzero(apart)[1:] - 1, len(at) - 1]
    before = np.cumsum(np.r_[0, run[last] + 1])[piece]
    first = np.flatnonzero(np.r_[True, new])
    runs[at] = run + before - np.repeat(before[first], np.diff(np.r_[first, len(at)]))
    return runs


def _came_again(piece: np.ndarray, slot: np.ndarray, iteration: np.ndarray) -> np.ndarray:
    """For each record how often its slot had come again with the same iteration, within its piece."""
    order = np.lexsort((np.arange(len(slot)), slot, piece))
    piece, slot, iteration = piece[order], slot[order], iteration[order]
    mine = np.r_[False, (piece[1:] == piece[:-1]) & (slot[1:] == slot[:-1])]
    count = np.cumsum(mine & np.r_[False, iteration[1:] == iteration[:-1]])
    first = np.flatnonzero(~mine)
    found = np.empty(len(slot), np.int64)
    found[order] = count - np.repeat(count[first], np.diff(np.r_[first, len(slot)]))
    return found
