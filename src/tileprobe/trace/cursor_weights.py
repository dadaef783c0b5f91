"""What records of the cursor's segment stand for: those that sampling left out of a `while` loop or that had no room.

A stream says at its end how many iterations such a loop had, in all its runs together: those that were recorded stand
for all of them. How long they took is known, too, where the loop itself is measured: iterations that stand for others
are fitted into its time. In come `Rows`, their records and the kernel's regions; out go a weight and a fit for each
record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tileprobe.ir.layout import Loop, Span
from tileprobe.ir.regions import Region
from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import Pushed, pair
from tileprobe.trace.unseen_loops import Ran
from tileprobe.trace.weights import Weight


@dataclass
class Runs:
    """Runs of a loop by row and start, and its recorded iterations with the run that each lies in."""

    row: np.ndarray
    start: np.ndarray  # without what probes and the operating system took, as all times here
    stop: np.ndarray
    stands: np.ndarray  # by what the time of each run is multiplied, as it stands for others
    run: np.ndarray  # of each iteration
    number: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def cursor_weights(
    rows: Rows, pushed: Pushed, loops: Mapping[int, Weight], regions: Sequence[Region]
) -> tuple[Weight, list[Ran]]:
    """For each record of the segment the executions that it stands for in its stream instance; and how often its loops
    ran, launch by launch."""
    weight = Weight(np.ones(len(pushed.row)), np.ones(len(pushed.row)))
    around = [slot.loops for slot in rows.layout.slots]
    for loop in rows.layout.loops:
        inside = np.flatnonzero(np.array([loop.id in one for one in around], bool)[pushed.slot])
        if len(inside) and not loop.cursor:
            weight.count[inside] *= _mean_count(loops[loop.id], rows, loop)[pushed.row[inside]]
    ran: list[Ran] = []
    mine = rows.layout.pushed_loops(rows.stream.id)
    for loop in sorted(mine, key=lambda one: len(one.loops)):  # what is around a loop comes before it
        total, seen = _add_loop(weight, rows, pushed, loop, loops, regions)
        every = (np.bincount(rows.launch, part).tolist() for part in (total, seen))
        ran += [Ran(loop.id, launch, *counts) for launch, counts in enumerate(zip(*every))]
    return weight, ran


def _add_loop(
    weight: Weight,
    rows: Rows,
    pushed: Pushed,
    loop: Loop,
    loops: Mapping[int, Weight],
    regions: Sequence[Region],
) -> tuple[np.ndarray, np.ndarray]:
    """Weighs the records of a loop's body that lie in no loop further in. Of each row the iterations that ran, and
    those that were recorded."""
    mine, slots = (*loop.loops, loop.id), rows.layout.slots
    spans = [span for span in rows.layout.spans if slots[span.start].loops == mine]
    pairs = [pair(rows, pushed, span) for span in spans]
    there = [np.bincount(pushed.row[each.begin], minlength=len(rows)).astype(float) for each in pairs]
    always = [_in_every_iteration(rows, span) for span in spans]
    if any(always):
        seen = np.max([count for count, every in zip(there, always) if every], axis=0)
    else:
        seen = np.max([_chosen(rows, pushed, loop), *there], axis=0)
    total = np.maximum(rows.total(loop.id), seen)
    for each, count, every in zip(pairs, there, always):
        recorded = count if every else seen
        ratio = np.divide(total, recorded, out=np.ones(len(rows)), where=recorded > 0)
        ratio *= _share_missing(rows, total, recorded)
        for ends in (each.begin, each.end):
            weight.count[ends] = ratio[pushed.row[ends]]
    if (total <= seen).all():
        return total, seen
    runs = _runs(rows, pushed, loop, regions, weight, loops)
    inside = np.flatnonzero(np.array([slot.loops == mine for slot in slots], bool)[pushed.slot])
    if runs is not None and len(runs.row):
        weight.fit[inside] = _fit(runs, rows, total, seen)[pushed.row[inside]]
    return total, seen


def _in_every_iteration(rows: Rows, span: Span) -> bool:
    """Whether a span has one interval in each iteration: it stands in no branch, and does not reach from one iteration
    to another."""
    apart = span.start_ahead != span.stop_ahead or max(span.start_peeled, span.stop_peeled) >= 0
    return not (apart or any(rows.layout.slots[end].branch for end in (span.start, span.stop)))


def _chosen(rows: Rows, pushed: Pushed, loop: Loop) -> np.ndarray:
    """Of each row: about how many iterations were chosen and had room, where all records stand in branches and none
    says it."""
    every = rows.sampling.loop(loop.id)
    chosen = np.minimum(rows.total(loop.id) / every.stride, float(every.count) * rows.runs(loop.id))
    kept = np.bincount(pushed.row, minlength=len(rows))
    return chosen * np.divide(kept, kept + pushed.lost, out=np.zeros(len(rows)), where=kept > 0)


def _share_missing(rows: Rows, amount: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """For each row: all that its launch had of an amount over that of rows with records of it, which stand for the
    others."""
    size = int(rows.launch.max(initial=-1)) + 1
    total = np.bincount(rows.launch, amount, size)
    there = np.bincount(rows.launch, np.where(seen > 0, amount, 0.0), size)
    return np.divide(total, there, out=np.ones(size), where=there > 0)[rows.launch]


def _mean_count(weight: Weight, rows: Rows, loop: Loop) -> np.ndarray:
    """Of each row: iterations over recorded iterations, in all runs together."""
    placed = np.minimum(rows.sampling.loop(loop.id).selected(rows.trips(loop.id)), loop.capacity)
    axes = tuple(range(1, placed.ndim))
    total, kept = (weight.count * placed).sum(axis=axes), placed.sum(axis=axes)
    return np.divide(total, kept, out=np.ones(len(rows)), where=kept > 0)


# -- the time of a loop ---------------------------------------------------------------------------------------


def _fit(runs: Runs, rows: Rows, total: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Of each row: what the time of its iterations is multiplied by, beside their number, to fill its runs, and those
    of rows of the launch in which no iteration was recorded."""
    row, size = runs.row[runs.run], len(rows)
    lasted = np.bincount(row, runs.end - runs.begin, size)
    whole = np.bincount(runs.row, runs.stands * (runs.stop - runs.start), size)
    recorded = np.bincount(row, minlength=size)
    counted = np.divide(total * lasted, recorded, out=np.zeros(size), where=recorded > 0)
    between = _between(runs, rows) * recorded
    share = np.divide(lasted, lasted + between, out=np.ones(size), where=lasted + between > 0)
    fit = np.divide(
        np.maximum(whole * share, lasted), counted, out=np.ones(size), where=(counted > 0) & (total > seen)
    )
    of_time = _share_missing(rows, np.where(total > 0, whole, 0.0), lasted)
    return fit * of_time / _share_missing(rows, total, seen)


def _between(runs: Runs, rows: Rows) -> np.ndarray:
    """Of each row: what the loop itself takes between two iterations. Where neighbours were recorded they tell it; else
    those that are not: how long after one another they began, less what they took. That is no more than what it takes
    before the first, where that was recorded: what iterations nobody looked at took longer is theirs."""
    order = np.lexsort((runs.begin, runs.run))
    row, begin, end = runs.row[runs.run][order], runs.begin[order], runs.end[order]
    apart = np.diff(runs.number[order]) * (np.diff(runs.run[order]) == 0)
    near, some = apart == 1, apart > 0
    gaps = (begin[1:] - end[:-1])[near]
    size = len(rows)
    count = np.bincount(row[1:][near], minlength=size)
    own = np.divide(np.bincount(row[1:][near], gaps, size), count, out=np.zeros(size), where=count > 0)
    took = end - begin
    far = np.diff(begin)[some] / apart[some] - ((took[1:] + took[:-1]) / 2)[some]
    before = _before_the_first(runs)
    usual = max(float(np.median(far)), 0.0) if len(far) else before or 0.0
    return np.where(own > 0, own, usual if before is None else min(usual, before))


def _before_the_first(runs: Runs) -> float | None:
    """What a loop itself usually takes until its first iteration begins, if one was recorded."""
    first = runs.number == 0
    before = (runs.begin - runs.start[runs.run])[first]
    return float(np.median(before)) if len(before) else None


def _iterations(rows: Rows, loop: Loop, regions: Sequence[Region]) -> Span | None:
    """The span of a loop's iterations, if the loop and they are recorded."""
    spans = {span.region: span for span in rows.layout.spans if span.kind == "region"}
    wanted = (*loop.loops, loop.id)
    for region in regions:
        whole = region.kind == "iteration" and region.id in spans and region.parent in spans
        if whole and rows.layout.slots[spans[region.id].start].loops == wanted:
            return spans[region.id]
    return None


def _runs(
    rows: Rows,
    pushed: Pushed,
    loop: Loop,
    regions: Sequence[Region],
    weight: Weight,
    loops: Mapping[int, Weight],
) -> Runs | None:
    """The runs of a loop, where its regions tell: what it is itself, and its iterations."""
    span = _iterations(rows, loop, regions)
    if span is None:
        return None
    outer = next(region.parent for region in regions if region.id == span.region)
    whole = next(one for one in rows.layout.spans if one.region == outer and one.kind == "region")
    row, start, stop, stands = _intervals(rows, pushed, whole, weight, loops)
    order = np.lexsort((start, row))
    row, start, stop = row[order], start[order], stop[order]
    pairs, time = pair(rows, pushed, span), own_time(rows, pushed)
    at = within(row, start, stop, pushed.row[pairs.begin], time[pairs.begin])
    inside = at >= 0
    begin, end = (time[which][inside] for which in (pairs.begin, pairs.end))
    return Runs(row, start, stop, stands[order], at[inside], pairs.iteration[inside], begin, end)


def _intervals(
    rows: Rows, pushed: Pushed, span: Span, weight: Weight, loops: Mapping[int, Weight]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Row, start, stop of a span's intervals, and by what their time is multiplied."""
    first, last = rows.layout.slots[span.start], rows.layout.slots[span.stop]
    if first.cursor:
        pairs, time = pair(rows, pushed, span), own_time(rows, pushed)
        stands = weight.count[pairs.begin] * weight.fit[pairs.begin]
        return pushed.row[pairs.begin], time[pairs.begin], time[pairs.end], stands
    start, stop = rows.slot(first), rows.slot(last)
    at = np.nonzero((start >= 0) & (stop >= 0))
    stands = np.ones(len(at[0]))
    for depth, loop in enumerate(first.loops):
        stands *= (loops[loop].count * loops[loop].fit)[at[: depth + 1]]
    time = rows.own_time()
    return at[0], rows.slot(first, 0, time)[at], rows.slot(last, 0, time)[at], stands


def own_time(rows: Rows, pushed: Pushed) -> np.ndarray:
    """Of each record of the segment the time as `Rows.own_time` has it for the others."""
    time = (pushed.clock - rows.first_clock()[pushed.row]).astype(np.float64)
    for part in (pushed.delay, pushed.taken):
        if part is not None:
            time -= part
    return time


def within(
    rows: np.ndarray, start: np.ndarray, stop: np.ndarray, row: np.ndarray, clock: np.ndarray
) -> np.ndarray:
    """For each record the run in which it lies, or -1. Runs of a row do not overlap."""
    size = len(rows)
    both, clocks = np.r_[rows, row], np.r_[start, clock]
    order = np.lexsort((np.arange(len(both)) >= size, clocks, both))
    latest = np.maximum.accumulate(np.where(order < size, order, -1))
    found = np.empty(len(both), np.int64)
    found[order] = latest
    found = found[size:]
    if not size:
        return found
    good = (found >= 0) & (rows[found] == row) & (clock <= stop[found])
    return np.where(good, found, -1)
