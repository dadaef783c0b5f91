"""Launches that tell less than others of their work, and the ones that stand for them.

A launch that had to wait for a processor has times that are not the kernel's; one whose loops ran longer than there was
room has seen a part of them only. Others of the work stand for it, but only those that took about as long: a long
launch is interrupted more often and fills its room sooner than a short one, so that leaving it out for short ones would
leave out what is slow. In comes a trace whose launches have works; out goes, for each launch that is left out, which
ones stand for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tileprobe.trace.model import Launch

if TYPE_CHECKING:
    from tileprobe.trace.trace import Trace

UNDISTURBED = 0.01  # of a launch's time, spent waiting for a processor
ENOUGH = 8  # launches that were left alone stand for one that was not
ABOUT = 1.5  # times as much or as long


def undisturbed(launch: Launch) -> bool:
    """Whether it waited for no more than a hundredth of its time, as far as is known."""
    return (launch.preempted_ns or 0.0) <= UNDISTURBED * (launch.duration_ns or 0.0)


def complete(launch: Launch) -> bool:
    """Whether everything that was to be recorded of it had room."""
    return not launch.losses.lost


def stand_ins(trace: Trace) -> dict[int, list[int]]:
    """For each launch that is left out those that stand for it."""
    works: dict[int, list[Launch]] = {}
    for launch in trace.launches:
        if launch.probed:
            works.setdefault(launch.work, []).append(launch)
    mixed = [mine for mine in works.values() if any(map(complete, mine)) and not all(map(_good, mine))]
    if not mixed:
        return {}
    sizes = _sizes(trace, [launch.id for mine in mixed for launch in mine])
    return {gone: kept for mine in mixed for gone, kept in _of_work(mine, sizes).items()}


def _good(launch: Launch) -> bool:
    return undisturbed(launch) and complete(launch)


def _of_work(launches: list[Launch], sizes: dict[int, _Size]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for launch in launches:
        if complete(launch) and not undisturbed(launch):
            alike = _alike(launch, [one for one in launches if _good(one)], sizes)
            if len(alike) >= ENOUGH:
                found[launch.id] = alike
    for launch in launches:
        if not complete(launch):
            there = [one for one in launches if complete(one) and one.id not in found]
            if alike := _alike(launch, there, sizes, counted=False):
                found[launch.id] = alike
    return found


def _alike(
    launch: Launch, others: list[Launch], sizes: dict[int, _Size], *, counted: bool = True
) -> list[int]:
    """Those that did about as much, in about the same time as far as one can tell when some of it was somebody
    else's. What a launch without room did is not `counted`: a loop in the part that it did not see may be most."""
    mine = sizes.get(launch.id)
    return [
        one.id
        for one in others
        if mine is not None and one.id in sizes and mine.about(sizes[one.id], counted)
    ]


@dataclass(frozen=True)
class _Size:
    """Executions of regions, and the time of all programs, which is between two bounds."""

    count: float
    least_ns: float
    most_ns: float

    def about(self, other: _Size, counted: bool) -> bool:
        some, more = sorted((self.count, other.count))
        apart = self.least_ns > ABOUT * other.most_ns or other.least_ns > ABOUT * self.most_ns
        return not apart and (not counted or more <= ABOUT * some)


def _sizes(trace: Trace, launches: list[int]) -> dict[int, _Size]:
    roots = [region.id for region in trace.regions if region.parent is None]
    lasted = (pl.col("stop_ns") - pl.col("start_ns")) * pl.col("weight") * pl.col("fit")
    mine = trace.scan().filter(pl.col("launch").is_in(launches) & (pl.col("kind") == "region"))
    rows = mine.group_by("launch").agg(
        pl.col("weight").cast(pl.Float64).sum(),
        lasted.filter(pl.col("region").is_in(roots)).sum().alias("ns"),
    )
    known = {launch.id: (launch.preempted_ns or 0.0, launch.ran_ns or 0.0) for launch in trace.launches}
    found = {}
    for launch, count, ns in rows.collect().iter_rows():
        waited, ran = known[launch]
        found[launch] = _Size(count, max(ns - waited, min(ns, ran)), ns)
    return found
