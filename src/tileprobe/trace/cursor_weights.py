"""What records of the cursor's segment stand for: those that sampling left out of a `while` loop or that had no room.

Nobody counts the iterations of such loops, but the segment counts its records, those that did not fit included, and
the time of a loop is measured: iterations that stand for others are fitted into it. Where only the first iterations
were wanted, that time alone tells how many there were. In come `Rows`, their records and the kernel's regions; out go
a weight and a fit for each record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tileprobe.ir.layout import Loop, Span
from tileprobe.ir.regions import Region
from tileprobe.ir.sampling import ALL, Every
from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import Pushed, pair
from tileprobe.trace.weights import Weight


@dataclass
class _Runs:
    """Runs of a loop by row and start, and its recorded iterations with the run that each lies in."""

    row: np.ndarray
    start: np.ndarray  # without what probes and the operating system took, as all times here
    stop: np.ndarray
    run: np.ndarray  # of each iteration
    number: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def cursor_weights(
    rows: Rows, pushed: Pushed, loops: Mapping[int, Weight], regions: Sequence[Region]
) -> Weight:
    """For each record of the segment the executions that it stands for in its stream instance."""
    weight = Weight(np.ones(len(pushed.row)), np.ones(len(pushed.row)))
    around = [slot.loops for slot in rows.layout.slots]
    for loop in rows.layout.loops:
        inside = np.flatnonzero(np.array([loop.id in one for one in around], bool)[pushed.slot])
        if not len(inside):
            continue
        if not loop.cursor:
            weight.count[inside] *= _mean_count(loops[loop.id], rows, loop)[pushed.row[inside]]
        elif rows.sampling.loop(loop.id) != Every() or pushed.lost.any():
            _add_loop(weight, rows, pushed, loop, inside, _runs(rows, pushed, loop, regions))
    return weight


def _add_loop(
    weight: Weight, rows: Rows, pushed: Pushed, loop: Loop, inside: np.ndarray, runs: _Runs | None
) -> None:
    every, row = rows.sampling.loop(loop.id), pushed.row[inside]
    outermost = not any(rows.layout.loops[outer].cursor for outer in loop.loops)
    stands = np.full(len(rows), float(every.stride))
    if outermost:  # records that did not fit are counted once
        stands *= _not_fitting(rows, pushed)
    if runs is None or not len(runs.row):
        weight.count[inside] *= stands[row]
        return
    # A run whose first iteration is always chosen has one in four only if it is long: its end is told by time.
    short = every.count != ALL
    timed = short | ((stands > 1) & (np.asarray(pushed.lost) == 0))
    behind = _most_behind(runs, every, np.asarray(pushed.lost))
    ratio = np.where(timed[runs.row], _counted_by_time(runs, rows, behind), stands[runs.row])
    at = _within(runs, row, own_time(rows, pushed)[inside])
    weight.count[inside] *= np.where(at >= 0, ratio[at], 1.0 if short else stands[row])
    if outermost and not short:
        weight.fit[inside] *= _fit(runs, ratio, rows)[row]


def _fit(runs: _Runs, stands: np.ndarray, rows: Rows) -> np.ndarray:
    """Of each row: what the time of its iterations is multiplied by, beside their number (`stands`, of each run), to
    fill its runs, and those of rows of the launch in which no iteration was chosen."""
    row, size = runs.row[runs.run], len(rows)
    lasted = np.bincount(row, runs.end - runs.begin, size)
    counted = np.bincount(row, stands[runs.run] * (runs.end - runs.begin), size)
    whole = np.bincount(runs.row, runs.stop - runs.start, size)
    order = np.lexsort((runs.begin, runs.run))
    apart = np.diff(runs.number[order]) * (np.diff(runs.run[order]) == 0)
    near = apart == 1
    gaps = (runs.begin[order][1:] - runs.end[order][:-1])[near]
    between = np.bincount(row[order][1:][near], gaps, size)
    usual = _between_strides(runs, order, apart) * np.bincount(row, minlength=size)
    between = np.where(between > 0, between, usual)
    share = np.divide(lasted, lasted + between, out=np.ones(size), where=lasted + between > 0)
    everything, seen = (np.bincount(rows.launch, part) for part in (whole, whole * (lasted > 0)))
    missing = np.divide(everything, seen, out=np.ones(len(seen)), where=seen > 0)[rows.launch]
    fit = np.divide(
        np.maximum(whole * share, lasted),
        counted,
        out=np.ones(size),
        where=(lasted > 0) & (counted > lasted),
    )
    return fit * missing


def _between_strides(runs: _Runs, order: np.ndarray, apart: np.ndarray) -> float:
    """What the loop itself usually takes between two iterations, from recorded ones that are not neighbours: how long
    after one another they began, less what they took. It is no more than what it takes before the first, where that was
    recorded: what iterations nobody looked at took longer is theirs."""
    some = apart > 0
    began, took = np.diff(runs.begin[order])[some], (runs.end - runs.begin)[order]
    gaps = began / apart[some] - ((took[1:] + took[:-1]) / 2)[some]
    gap = max(float(np.median(gaps)), 0.0) if len(gaps) else 0.0
    return min(gap, _before_the_first(runs) or gap)


def _not_fitting(rows: Rows, pushed: Pushed) -> np.ndarray:
    """Of each row: all records over those that fitted."""
    kept = np.bincount(pushed.row, minlength=len(rows)).astype(float)
    return np.divide(kept + pushed.lost, kept, out=np.ones(len(rows)), where=kept > 0)


def _mean_count(weight: Weight, rows: Rows, loop: Loop) -> np.ndarray:
    """Of each row: iterations over recorded iterations, in all runs together."""
    placed = np.minimum(rows.sampling.loop(loop.id).selected(rows.trips(loop.id)), loop.capacity)
    axes = tuple(range(1, placed.ndim))
    total, kept = (weight.count * placed).sum(axis=axes), placed.sum(axis=axes)
    return np.divide(total, kept, out=np.ones(len(rows)), where=kept > 0)


def _runs(rows: Rows, pushed: Pushed, loop: Loop, regions: Sequence[Region]) -> _Runs | None:
    """The runs of a loop, where its regions tell: what it is itself, and its iterations."""
    spans = {span.region: span for span in rows.layout.spans if span.kind == "region"}
    slots = rows.layout.slots
    wanted = (*loop.loops, loop.id)
    mine = [r for r in regions if r.kind == "iteration" and r.id in spans and r.parent in spans]
    mine = [r for r in mine if slots[spans[r.id].start].loops == wanted]
    if not mine:
        return None
    row, start, stop = _intervals(rows, pushed, spans[mine[0].parent])  # type: ignore[index]
    order = np.lexsort((start, row))
    nothing = np.zeros(0, np.int64)
    runs = _Runs(row[order], start[order], stop[order], *[nothing] * 4)
    pairs, time = pair(rows, pushed, spans[mine[0].id]), own_time(rows, pushed)
    at = _within(runs, pushed.row[pairs.begin], time[pairs.begin])
    inside = at >= 0
    begin, end = (time[which][inside] for which in (pairs.begin, pairs.end))
    return replace(runs, run=at[inside], number=pairs.iteration[inside], begin=begin, end=end)


def _intervals(rows: Rows, pushed: Pushed, span: Span) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, last = rows.layout.slots[span.start], rows.layout.slots[span.stop]
    if first.cursor:
        pairs, time = pair(rows, pushed, span), own_time(rows, pushed)
        return pushed.row[pairs.begin], time[pairs.begin], time[pairs.end]
    start, stop = rows.slot(first), rows.slot(last)
    at = np.nonzero((start >= 0) & (stop >= 0))
    time = rows.own_time()
    return at[0], rows.slot(first, 0, time)[at], rows.slot(last, 0, time)[at]


def own_time(rows: Rows, pushed: Pushed) -> np.ndarray:
    """Of each record of the segment the time as `Rows.own_time` has it for the others."""
    time = (pushed.clock - rows.first_clock()[pushed.row]).astype(np.float64)
    for part in (pushed.delay, pushed.taken):
        if part is not None:
            time -= part
    return time


def _most_behind(runs: _Runs, every: Every, lost: np.ndarray) -> np.ndarray:
    """Of each run the iterations that may have come behind the last recorded one: the next one that is chosen would
    have a record, if as many as are wanted had not been there before, and if there was room."""
    count = np.bincount(runs.run, minlength=len(runs.row))
    return np.where((lost[runs.row] == 0) & (count < every.count), every.stride - 1.0, np.inf)


def _counted_by_time(runs: _Runs, rows: Rows, behind: np.ndarray) -> np.ndarray:
    """What an iteration of each run stands for: by the numbers of the recorded ones, how long after one another they
    began, and how long the run went on behind the last, for `behind` of them at most. Between iterations, and behind
    the last one, the loop takes what it takes before the first."""
    size = len(runs.row)
    count = np.bincount(runs.run, minlength=size)
    low, high = np.full(size, np.iinfo(np.int64).max), np.full(size, -1, np.int64)
    early, late, end = np.full(size, np.inf), np.full(size, -np.inf), np.full(size, -np.inf)
    for table, values, pick in (
        (low, runs.number, np.minimum),
        (early, runs.begin, np.minimum),
        (high, runs.number, np.maximum),
        (late, runs.begin, np.maximum),
        (end, runs.end, np.maximum),
    ):
        pick.at(table, runs.run, values)
    some = count > 0
    apart = np.where(some, np.maximum(high - low, 0), 0)
    own = _before_the_first(runs)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(apart > 0, (late - early) / apart, end - early + own)
        more = np.where(each > 0, np.floor((runs.stop - end - own) / each + 0.5), 0.0)
        total = np.maximum(high + 1 + np.clip(more, 0.0, behind), count)
        ratio = np.where(some, total / count, 1.0)
    lasted = (runs.stop - runs.start).astype(float)
    launch = rows.launch[runs.row]
    whole, seen = np.bincount(launch, lasted), np.bincount(launch, lasted * some)
    return ratio * np.divide(whole, seen, out=np.ones(len(whole)), where=seen > 0)[launch]


def _before_the_first(runs: _Runs) -> float:
    """What a loop itself usually takes until its first iteration begins; nothing where no first one was recorded."""
    first = runs.number == 0
    before = (runs.begin - runs.start[runs.run])[first]
    return float(np.median(before)) if len(before) else 0.0


def _within(runs: _Runs, row: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """For each record the run in which it lies, or -1. Runs of a row do not overlap."""
    size = len(runs.row)
    rows, clocks = np.r_[runs.row, row], np.r_[runs.start, clock]
    order = np.lexsort((np.arange(len(rows)) >= size, clocks, rows))
    latest = np.maximum.accumulate(np.where(order < size, order, -1))
    found = np.empty(len(rows), np.int64)
    found[order] = latest
    found = found[size:]
    if not size:
        return found
    good = (found >= 0) & (runs.row[found] == row) & (clock <= runs.stop[found])
    return np.where(good, found, -1)
