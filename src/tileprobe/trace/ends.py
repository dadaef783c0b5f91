"""The two ends of a span find each other: by logical iteration, across peeled copies and across streams.

In come the `Rows` of the start's and of the stop's stream; out goes `Met`, the records that belong together.
Every start looks up the one place where its stop must lie, so a span costs as much as it has starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprobe.ir.layout import Slot, Span, from_end
from tileprobe.trace.blocks import Rows


@dataclass
class Met:
    """Starts and stops that belong together: row and word of each, logical iteration, which run of the loop it was,
    and the places of the starts in the loops around them."""

    start_row: np.ndarray
    start_word: np.ndarray
    stop_row: np.ndarray
    stop_word: np.ndarray
    iteration: np.ndarray
    outer: np.ndarray
    places: list[np.ndarray]


@dataclass
class _End:
    rows: Rows
    slot: Slot
    ahead: int
    peeled: int

    def first(self, loop: int, row: np.ndarray, indices: list[np.ndarray]) -> np.ndarray | int:
        """The iteration at the loop's first place, in its run within these outer iterations."""
        first = self.rows.first(loop)
        return first[(row, *indices)] if isinstance(first, np.ndarray) else first

    def peeled_iteration(self, row: np.ndarray, indices: list[np.ndarray]) -> np.ndarray:
        """The logical iteration of a copy that was peeled off a loop."""
        if self.ahead >= 0:
            return np.full(len(row), self.ahead, np.int64)
        return self.rows.trips(self.peeled)[(row, *indices)] + from_end(self.ahead)

    def word(self, indices: list[np.ndarray]) -> np.ndarray | int:
        return self.slot.base + sum(i * s for i, s in zip(indices, self.slot.strides))


def meet(start_rows: Rows, stop_rows: Rows, span: Span) -> Met:
    slots = start_rows.layout.slots
    start = _End(start_rows, slots[span.start], span.start_ahead, span.start_peeled)
    stop = _End(stop_rows, slots[span.stop], span.stop_ahead, span.stop_peeled)
    row, *indices = np.nonzero(start_rows.slot(start.slot) >= 0)
    from_word = np.broadcast_to(start.word(indices), row.shape)
    numbers = _numbers(start, row, indices)
    if start_rows is stop_rows:
        found, to_row = np.arange(len(row)), row
    else:
        found, to_row = _other_rows(start_rows, stop_rows, row)
    to_word, there = _look_up(stop, to_row, [number[found] for number in numbers])
    if span.kind == "async" and numbers:
        there &= _is_iteration(start, row, indices, numbers[-1])[found]
    found, to_row, to_word = found[there], to_row[there], to_word[there]
    outer = np.zeros(len(row), np.int64)
    for loop, number in zip(start.slot.loops, numbers[:-1]):
        outer = outer * start_rows.span(loop) + number
    iteration = numbers[-1] if numbers else np.full(len(row), -1)
    places = [index[found] for index in indices]
    return Met(row[found], from_word[found], to_row, to_word, iteration[found], outer[found], places)


def _numbers(end: _End, row: np.ndarray, indices: list[np.ndarray]) -> list[np.ndarray]:
    """The iterations of the loops around each record, the logical one last."""
    numbers: list[np.ndarray] = []
    for depth, loop in enumerate(end.slot.loops):
        stride = end.rows.sampling.loop(loop).stride
        numbers.append(indices[depth] * stride + end.first(loop, row, indices[:depth]))
    if end.peeled >= 0:
        numbers.append(end.peeled_iteration(row, indices))
    elif numbers:
        numbers[-1] = numbers[-1] + end.ahead
    return numbers


def _is_iteration(end: _End, row: np.ndarray, indices: list[np.ndarray], number: np.ndarray) -> np.ndarray:
    """Whether the loop has this logical iteration: a pipelined loop also issues for those behind its last, and its
    compiler masks that off."""
    loop, outer = (end.peeled, indices) if end.peeled >= 0 else (end.slot.loops[-1], indices[:-1])
    return (number >= 0) & (number < end.rows.whole_trips(loop)[(row, *outer)])


def _look_up(end: _End, row: np.ndarray, numbers: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The word at which the record with these iterations lies, and whether it is there."""
    there = np.ones(len(row), bool)
    indices: list[np.ndarray] = []
    last = len(end.slot.loops) - 1 if end.peeled < 0 else -1
    for depth, loop in enumerate(end.slot.loops):
        number = numbers[depth] - (end.ahead if depth == last else 0)
        offset = number - end.first(loop, row, indices)
        index, rest = np.divmod(offset, end.rows.sampling.loop(loop).stride)
        there &= (rest == 0) & (index >= 0) & (index < end.rows.layout.loops[loop].capacity)
        indices.append(np.where(there, index, 0))
    if end.peeled >= 0:
        there &= end.peeled_iteration(row, indices) == numbers[-1]
    word = np.broadcast_to(np.asarray(end.word(indices)), row.shape)
    there &= end.rows.clocks[row, word] >= 0
    return word, there


def _other_rows(start: Rows, stop: Rows, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each record each row of the other stream that it may meet: the records' numbers and the rows.

    Instances of a CTA meet one to one, or one meets all."""
    width = int(max(start.program.max(initial=0), stop.program.max(initial=0))) + 1
    start_key = start.launch * width + start.program
    stop_key = stop.launch * width + stop.program
    order = np.argsort(stop_key, kind="stable")
    sought = start_key[row]
    low = np.searchsorted(stop_key[order], sought, "left")
    count = np.searchsorted(stop_key[order], sought, "right") - low
    found = np.repeat(np.arange(len(row)), count)
    nth = np.arange(len(found)) - np.repeat(np.cumsum(count) - count, count)
    to_row = order[np.repeat(low, count) + nth]
    base = start.layout.first_instance
    one = start.instance[row[found]] - base(start.stream.id)
    other = stop.instance[to_row] - base(stop.stream.id)
    alike = one // start.stream.in_a_cta == other // stop.stream.in_a_cta
    if start.stream.in_a_cta > 1 and stop.stream.in_a_cta > 1:
        alike &= one == other
    found, to_row = found[alike], to_row[alike]
    return found, to_row
