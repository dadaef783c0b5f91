"""Interruptions: gaps between records in which the operating system ran something else.

A gap is one when it is far longer than is usual before this record, in this kernel, and the threads of the launch are
known to have waited that long for a processor. What is beyond the usual is taken out of the times: not out of the
timeline, which shows what happened. Without that knowledge nothing is taken out: a program may be slow by itself. A gap
across iterations that have no records is held against others of that kind, by the iteration. In come rows; the ticks
that were taken before each record are put beside its clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import InSequence, Pushed, in_sequence
from tileprobe.trace.unseen import UNKNOWN, unseen

LEAST_NS = 20_000.0  # shorter interruptions are not told from noise; a busy process stays for a hundred times as long
SPREADS = 8.0  # times the distance from the tenth to the fiftieth percentile is far outside
MANY = 0.25  # of the gaps before a record: what so many do is usual
FEW = 4  # gaps across iterations without records, below which nothing is known of what is usual
ROOM = 1.1  # gaps measure an interruption from the records around it, the system from its queue


@dataclass
class Usual:
    """What is usual before each slot, in ticks: the median gap, the longest, and how long it lasts in programs that
    take long there every time. Gaps across iterations without records are of a kind of their own, in ticks a such
    iteration: their place is behind all slots."""

    median: np.ndarray
    limit: np.ndarray
    again: Mapping[tuple[int, int], float] = field(
        default_factory=dict
    )  # kind and program -> longest gap, in most


@dataclass
class _Gaps:
    ticks: np.ndarray
    kind: np.ndarray
    launch: np.ndarray
    program: np.ndarray


def usual_gaps(
    streams: Sequence[tuple[Rows, Pushed]], slots: int, least_ticks: float, undisturbed: bool
) -> Usual:
    """From launches of one work. When they were `undisturbed` whatever they did is usual."""
    gaps = [_gaps(rows, pushed, slots) for rows, pushed in streams]
    whole = _Gaps(*(np.concatenate([getattr(g, name) for g in gaps]) for name in _Gaps.__dataclass_fields__))
    median, limit = np.full(2 * slots, np.nan), np.full(2 * slots, np.inf)
    order = np.argsort(whole.kind, kind="stable")
    present, first = np.unique(whole.kind[order], return_index=True)
    for kind, part in zip(present, np.split(whole.ticks[order], first[1:])):
        low, middle = np.quantile(part, [0.1, 0.5])
        median[kind] = middle
        if kind >= slots and len(part) < FEW:
            continue
        if undisturbed:
            limit[kind] = 1.5 * part.max()
        else:
            bound = middle + SPREADS * (middle - low)
            limit[kind] = bound if (part > bound + least_ticks).mean() < MANY else np.inf
    return Usual(median, limit, _again(whole))


def _gaps(rows: Rows, pushed: Pushed, slots: int) -> _Gaps:
    """Streams of a launch are kept apart by their slots."""
    records = in_sequence(rows, pushed)
    between = unseen(rows, pushed, records)[1:]
    same = (records.row[1:] == records.row[:-1]) & (between != UNKNOWN)
    row, between = records.row[1:][same], between[same]
    return _Gaps(
        np.diff(records.clock)[same] / np.maximum(between, 1),
        records.slot[1:][same] + slots * (between > 0),
        rows.launch[row],
        rows.program[row],
    )


def _again(gaps: _Gaps) -> dict[tuple[int, int], float]:
    """Before each slot, by kind, in each program that was recorded more than once: the longest gap of a launch, in the
    middle of them. What a program does every time is its own doing."""
    if not len(gaps.ticks):
        return {}
    order = np.lexsort((gaps.launch, gaps.program, gaps.kind))
    kind, program, launch = (part[order] for part in (gaps.kind, gaps.program, gaps.launch))
    fresh = np.r_[True, (np.diff(kind) != 0) | (np.diff(program) != 0) | (np.diff(launch) != 0)]
    longest = np.maximum.reduceat(gaps.ticks[order], np.flatnonzero(fresh))
    kind, program = kind[fresh], program[fresh]
    group = np.r_[True, (np.diff(kind) != 0) | (np.diff(program) != 0)]
    starts = np.flatnonzero(group)
    parts = zip(kind[starts].tolist(), program[starts].tolist(), np.split(longest, starts[1:]))
    return {(s, p): float(np.median(each)) for s, p, each in parts if len(each) > 1}


@dataclass
class Interruptions:
    """What is usual for the work of each launch, and the ticks that its threads are known to have waited for a
    processor."""

    usual: Sequence[Usual]
    waited: Sequence[float | None]
    least_ticks: float

    def take_out(self, rows: Rows, pushed: Pushed) -> None:
        """Marks what was taken in each launch."""
        records = in_sequence(rows, pushed)
        between = unseen(rows, pushed, records)
        same = np.r_[False, records.row[1:] == records.row[:-1]][: len(records.row)] & (between != UNKNOWN)
        gap = np.r_[0, np.diff(records.clock)][: len(records.row)]
        kind = records.slot + len(rows.layout.slots) * (between > 0)
        times = np.maximum(between, 1)  # iterations by which a kind counts
        taken = np.zeros(len(gap))
        ends = np.searchsorted(
            rows.launch[records.row], np.arange(len(self.usual) + 1)
        )  # rows come by launch
        for first, end, known, ticks in zip(ends, ends[1:], self.usual, self.waited):
            if ticks and ticks >= self.least_ticks:
                mine = slice(first, end)
                longest = known.limit[kind[mine]] * times[mine] + self.least_ticks
                at = first + np.flatnonzero(same[mine] & (gap[mine] > longest))
                program = rows.program[records.row[at]]
                taken[at] = self._taken(known, ticks, gap[at], kind[at], times[at], program)
        if taken.any():
            _put(rows, pushed, records, taken)

    def _taken(
        self,
        known: Usual,
        waited: float,
        gap: np.ndarray,
        kind: np.ndarray,
        times: np.ndarray,
        program: np.ndarray,
    ) -> np.ndarray:
        """What of each gap is an interruption: the longest first, as long as the launch has waited for them."""
        excess = gap - known.median[kind] * times
        taken, left = np.zeros(len(gap)), ROOM * waited
        for n in np.argsort(-excess, kind="stable").tolist():
            again = known.again.get((int(kind[n]), int(program[n])), 0.0) * times[n]
            if excess[n] <= left and gap[n] > 1.5 * again + self.least_ticks:
                taken[n] = excess[n]
                left -= excess[n]
        return taken


def _put(rows: Rows, pushed: Pushed, records: InSequence, taken: np.ndarray) -> None:
    """Sums up what was taken before each record of a row."""
    total = np.cumsum(taken)
    first = np.flatnonzero(np.r_[True, records.row[1:] != records.row[:-1]])
    total -= np.repeat(total[first], np.diff(np.r_[first, len(total)]))
    back = np.empty(len(total))
    back[records.order] = total
    count = len(total) - len(pushed.row)
    rows.taken = np.zeros(rows.clocks.shape)
    rows.taken[rows.recorded_words] = back[:count]
    pushed.taken = back[count:]
