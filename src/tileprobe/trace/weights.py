"""What the recorded iterations of a loop stand for: those that were left out, had no room, or were overwritten.

Trip counts say how many iterations each run of a loop had. How long they took in all is known, too, where the loop
itself is measured: records stand right before and right behind it. Iterations that stand for others are fitted into
that time, so that a loop whose later iterations are slower, or faster, than the recorded ones still adds up. In come
`Rows`; out goes for each loop with places how many iterations a recorded one stands for, and that fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprobe.ir.layout import Loop, Slot
from tileprobe.trace.blocks import Rows, fixed_loops, frames, strided


@dataclass
class Weight:
    """Over (rows, *outer iterations): iterations that a recorded one of this run stands for, and what their time is
    multiplied by beside that."""

    count: np.ndarray
    fit: np.ndarray


@dataclass
class Runs:
    """The runs of one loop, over (rows, *outer iterations)."""

    trips: np.ndarray
    placed: np.ndarray  # iterations of which there are records
    stands: np.ndarray  # runs that each stands for, as its outer iterations were left out


def loop_weights(rows: Rows) -> dict[int, Weight]:
    """For each loop of the stream whose iterations have places."""
    found: dict[int, Weight] = {}
    for loop in fixed_loops(rows.layout, rows.stream.id):
        trips = rows.trips(loop.id)
        placed = np.minimum(rows.sampling.loop(loop.id).selected(trips), loop.capacity)
        if (placed == trips).all():
            found[loop.id] = Weight(np.ones(trips.shape), np.ones(trips.shape))
            continue
        runs = Runs(trips, placed, _around(found, loop.loops, trips.shape))
        count = np.divide(trips, placed, out=np.ones(trips.shape), where=placed > 0)
        missing = _share_missing(rows, runs, trips)
        fit = _fits(rows, loop, runs, missing)
        found[loop.id] = Weight(count * _of_launch(rows, missing, trips.ndim), fit)
    return found


def _around(found: dict[int, Weight], loops: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """The product of the counts of the loops around, for every run."""
    stands = np.ones(shape)
    for loop in loops:
        count = found[loop].count
        stands = stands * count.reshape(*count.shape, *[1] * (len(shape) - count.ndim))
    return stands


def _share_missing(rows: Rows, runs: Runs, amount: np.ndarray) -> np.ndarray:
    """For each launch: all there was of an amount over that in runs with records. Runs of which no iteration was
    chosen are stood for by the others."""
    axes = tuple(range(1, amount.ndim))
    size = int(rows.launch.max(initial=-1)) + 1
    everything = np.nansum(runs.stands * amount, axis=axes)
    present = np.nansum(np.where(runs.placed > 0, runs.stands * amount, 0.0), axis=axes)
    total, there = (np.bincount(rows.launch, part, size) for part in (everything, present))
    return np.divide(total, there, out=np.ones(size), where=there > 0)


def _of_launch(rows: Rows, table: np.ndarray, dimensions: int) -> np.ndarray:
    return (
        table[rows.launch].reshape(-1, *[1] * (dimensions - 1)) if len(table) else np.ones([1] * dimensions)
    )


# -- the time of a loop ---------------------------------------------------------------------------------------


def _fits(rows: Rows, loop: Loop, runs: Runs, missing: np.ndarray) -> np.ndarray:
    """What the time of recorded iterations is multiplied by, beside their number, to fill the loop."""
    fit = np.ones(runs.trips.shape)
    ends = _ends(rows, loop)
    if ends is None or not loop.capacity * loop.stride:
        return fit
    clocks = np.where(rows.recorded_words, rows.own_time(), np.nan)
    begin, end = (_at(clocks, rows, slot) for slot in ends)
    first, last = _iterations(clocks, rows, loop, runs.placed)
    recorded = np.nansum(last - first, axis=-1)
    inside = end - begin - _before_and_behind(rows, loop, runs, begin, end, first, last)
    inside = np.maximum(_in_iterations(rows, loop, runs, inside, first, last), recorded)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = inside * runs.placed / (runs.trips * recorded)
    partly = (runs.placed > 0) & (runs.placed < runs.trips) & (recorded > 0) & np.isfinite(ratio)
    fit = np.where(partly, ratio, 1.0)
    of_time = _share_missing(rows, runs, end - begin)
    change = np.divide(of_time, missing, out=np.ones(len(missing)), where=missing > 0)
    return fit * _of_launch(rows, change, fit.ndim)


def _ends(rows: Rows, loop: Loop) -> tuple[Slot, Slot] | None:
    """The records right before and right behind a loop that belong to one span: the loop itself, measured."""
    behind = loop.trip_base + 1 + loop.stride * loop.capacity
    for span in rows.layout.spans:
        start, stop = rows.layout.slots[span.start], rows.layout.slots[span.stop]
        beside = start.base + (2 if start.payload else 1) == loop.trip_base and stop.base == behind
        same = start.stream == stop.stream == loop.stream and start.loops == stop.loops == loop.loops
        if beside and same and not (start.cursor or stop.cursor):
            return start, stop
    return None


def _at(clocks: np.ndarray, rows: Rows, slot: Slot) -> np.ndarray:
    return strided(clocks, slot.base, rows.layout.shape(slot), slot.strides, writeable=False)


def _iterations(
    clocks: np.ndarray, rows: Rows, loop: Loop, placed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last record of each kept iteration, over (rows, *outer iterations, places)."""
    held = frames(clocks, rows.layout, loop)
    there = np.isfinite(held).any(axis=-1) & (np.arange(loop.capacity) < placed[..., None])
    first = np.where(there, np.where(np.isnan(held), np.inf, held).min(axis=-1), np.nan)
    last = np.where(there, np.where(np.isnan(held), -np.inf, held).max(axis=-1), np.nan)
    return first, last


def _before_and_behind(
    rows: Rows,
    loop: Loop,
    runs: Runs,
    begin: np.ndarray,
    end: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
) -> np.ndarray:
    """The time of each run before its first iteration and behind its last, where these were recorded."""
    every = rows.sampling.loop(loop.id)
    number = np.broadcast_to(np.asarray(rows.first(loop.id)), runs.trips.shape)
    final = number + (runs.placed - 1) * every.stride
    head = np.where((number == 0) & (runs.placed > 0), first[..., 0] - begin, 0.0)
    latest = np.where(np.isnan(last), -np.inf, last).max(axis=-1)
    tail = np.where((final == runs.trips - 1) & np.isfinite(latest), end - latest, 0.0)
    return np.nan_to_num(head) + np.nan_to_num(tail)


def _in_iterations(
    rows: Rows, loop: Loop, runs: Runs, inside: np.ndarray, first: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """Of each run's time inside what is in iterations and not between them. Where neighbours were recorded, it is
    everywhere as between them; elsewhere nothing is between, or what `_by_others` says."""
    lasted = np.nansum(last - first, axis=-1)
    between = first[..., 1:] - last[..., :-1]
    known = np.isfinite(between).sum(axis=-1) * (rows.sampling.loop(loop.id).stride == 1)
    gap = np.divide(np.nansum(between, axis=-1), known, out=np.zeros(known.shape), where=known > 0)
    each = np.divide(lasted, runs.placed, out=np.zeros(known.shape), where=runs.placed > 0)
    share = np.divide(each, each + gap, out=np.ones(known.shape), where=each + gap > 0)
    alone = _by_others(rows, loop, runs, inside, each * runs.trips) if rows.passed else inside
    return np.where(known > 0, inside * share, alone)


def _by_others(rows: Rows, loop: Loop, runs: Runs, inside: np.ndarray, stood: np.ndarray) -> np.ndarray:
    """The same for runs of which no neighbours were recorded, where much can be between: recorded ones stand for all
    (`stood`), as far as there is time for that. What they leave over of all runs together that every n-th covers is
    between iterations: single runs may have longer and shorter ones than were recorded."""
    every = rows.sampling.loop(loop.id)
    number = np.broadcast_to(np.asarray(rows.first(loop.id)), runs.trips.shape)
    covered = (runs.placed > 0) & (number + runs.placed * every.stride >= runs.trips) & np.isfinite(inside)
    iterations = runs.trips[covered].sum()
    left = float(np.sum(inside[covered] - stood[covered])) / iterations if iterations else 0.0
    return np.where(covered, inside - max(0.0, left) * runs.trips, np.minimum(inside, stood))
