"""The kernels of a trace beside each other: how long all launches of each took, the longest first.

In comes a trace; out goes one row a kernel. A launch that was not recorded counts as long as those of its work that
were timed, without probes where there are enough of these. What the operating system took from a launch is no time of
the kernel: one launch that had to wait must not put a kernel first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf, isfinite
from statistics import fmean

import numpy as np
import polars as pl

from tileprobe.tools.accounting import accounted, at_once, multiprocessors
from tileprobe.tools.figures import Spread, spread_of_total, together
from tileprobe.tools.programs import program_times
from tileprobe.tools.regions import region_tree, whole_ns
from tileprobe.tools.result import Column
from tileprobe.tools.signatures import labels
from tileprobe.tools.times import Times, region_times
from tileprobe.trace import Kernel, Launch, Trace, Work
from tileprobe.trace.cold import cold_launches
from tileprobe.trace.stand_ins import ABOUT, undisturbed
from tileprobe.trace.works import with_works

ENOUGH = (
    3  # launches without probes, from which on those with probes are not needed to know how long one takes
)

COLUMNS = [
    Column("name", "text", "kernel"),
    Column("share", "share", ""),
    Column("total_ns", "ns", "total", estimate="estimate"),
    Column("total_ns", "within", "", low="low_ns", high="high_ns"),
    Column("launches", "count", "launches"),
    Column("each_ns", "ns", "each"),
    Column("accounted", "percent", "in programs"),
    Column("recorded", "count", "recorded"),
    Column("target", "text", "target"),
]
SCHEMA = {
    "kernel": pl.Int64,
    "name": pl.String,
    "target": pl.String,
    "total_ns": pl.Float64,  # of all launches that ran
    "share": pl.Float64,
    "launches": pl.Int64,
    "recorded": pl.Int64,
    "low_ns": pl.Float64,  # 95 % interval of the total; null where nothing can be said
    "high_ns": pl.Float64,
    "each_ns": pl.Float64,  # the mean of a launch: all of them together take the total
    "accounted": pl.Float64,  # the share of the launches' time, on all threads, that programs ran for
    "estimate": pl.Boolean,  # not every launch was timed
}


def kernel_totals(trace: Trace, times: Times | None = None) -> pl.DataFrame:
    """One row a kernel, by total time. Where a launch's duration is not known, the time of its programs counts."""
    trace = with_works(trace)
    names = labels(trace.kernels)
    rows: list[dict] = [{**_row(trace, kernel), "name": names[kernel.id]} for kernel in trace.kernels]
    if any(row["total_ns"] is None for row in rows):  # then compare what all of them have
        times = region_times(trace) if times is None else times
        for row, kernel in zip(rows, trace.kernels):
            row["total_ns"] = whole_ns(region_tree(trace, kernel, times))
    again = parts_of(trace.kernels)
    whole = sum(row["total_ns"] for row in rows if row["kernel"] not in again)
    for row in rows:
        row["share"] = row["total_ns"] / whole if whole else 0.0
    frame = pl.DataFrame(rows, schema=SCHEMA)
    return frame.sort("total_ns", descending=True, maintain_order=True)


def parts_of(kernels: Sequence[Kernel]) -> set[int]:
    """Those that tell of another's launches once more, such as `k: units` of k: their time is the other's."""
    known = {(one.name, one.target, one.file, one.first_line) for one in kernels}
    return {
        one.id
        for one in kernels
        if (one.name.rpartition(": ")[0], one.target, one.file, one.first_line) in known
    }


@dataclass(frozen=True)
class Known:
    """Of a kernel: how many of its programs ran at a time; for each recorded launch how long its longest program took
    by itself, as no launch is shorter than that; which launches were cold; and how many without probes are enough."""

    threads: int = 1
    longest_ns: Mapping[int, float] = field(default_factory=dict)
    cold: Set[int] = frozenset()
    enough: int = ENOUGH


def known_of(trace: Trace, kernel: Kernel) -> Known:
    runs = program_times(trace, kernel)
    if not runs.height or not kernel.clock.is_time:
        return Known()
    longest = runs.group_by("launch").agg(pl.col("lasted_ns").max())
    enough = 1 if kernel.clock.is_simulated else ENOUGH  # it takes as long every time
    units = multiprocessors(trace, set(runs["launch"].unique().to_list()))
    return Known(
        at_once(kernel, runs, units), dict(longest.iter_rows()), cold_launches(with_works(trace)), enough
    )


@dataclass(frozen=True)
class Alike:
    """So many launches that `ran`, and how long those of them took by themselves that were timed: each as far as is
    known, and at the least."""

    ran: int
    bounds: list[tuple[float, float]]

    @property
    def lengths(self) -> list[float]:
        return [own for own, _ in self.bounds]

    @property
    def total_ns(self) -> float:
        return fmean(self.lengths) * self.ran


def alike_launches(work: Work, launches: Sequence[Launch], known: Known) -> list[Alike]:
    """The launches of a work, those of the kernel being given: a cold one by itself, then the others. Nothing of those
    of which none was timed."""
    mine = [launch for launch in launches if launch.work == work.id]
    cold = [launch for launch in mine if launch.id in known.cold]
    warm = [launch for launch in mine if launch.id not in known.cold]
    parts = [
        Alike(len(cold), own_and_least(cold, known)),
        Alike(work.ran - len(cold), own_and_least(warm, known)),
    ]
    return [part for part in parts if part.bounds]


def own_lengths(launches: Sequence[Launch], known: Known) -> list[float]:
    """How long launches of one work took by themselves: those without probes, where there are enough."""
    return [own for own, _ in own_and_least(launches, known)]


def own_and_least(launches: Sequence[Launch], known: Known) -> list[tuple[float, float]]:
    """The same, and how long each took at the least, if none of its programs ran while a thread waited."""
    timed = [launch for launch in launches if launch.duration_ns is not None]
    without = [launch for launch in timed if not launch.probed]
    chosen = without if len(without) >= known.enough else timed
    alone = [one.duration_ns or 0.0 for one in timed if undisturbed(one)]
    programs = [known.longest_ns[one.id] for one in timed if one.id in known.longest_ns]
    least = min(alone or programs, default=0.0)
    return [_own(launch, known, alone, least) for launch in chosen]


def _own(launch: Launch, known: Known, alone: Sequence[float], least: float) -> tuple[float, float]:
    """Of a launch that had to wait: as long as those that had not, where there are enough between what it took at the
    least and at the most; else its duration without its part of what its threads waited for together. What they ran
    for, where that is known, is the most that it can have taken by itself, and shared among them the least."""
    lasted, waited = launch.duration_ns or 0.0, launch.preempted_ns or 0.0
    if undisturbed(launch) or not lasted:
        return lasted, lasted
    threads = max(min(known.threads, int(np.prod(launch.grid))), 1 + waited // lasted)
    ran, longest = launch.ran_ns, known.longest_ns.get(launch.id, 0.0)
    low = max(lasted - waited, longest if ran is None else min(longest, ran), (ran or 0.0) / threads)
    high = lasted if ran is None else max(low, min(lasted, ran))
    alike = [one for one in alone if low <= ABOUT * one and one <= ABOUT * high]
    if len(alike) >= ENOUGH:
        usual = min(high, max(low, fmean(alike)))
        return usual, usual
    own = min(high, lasted - waited / threads)
    return min(high, max(own, low, least)), own if ran is None else min(own, low)


def _row(trace: Trace, kernel: Kernel) -> dict:
    works = [work for work in trace.works if work.kernel == kernel.id]
    launches = trace.kernel_launches(kernel.id)
    total: float | None = 0.0
    spreads: list[Spread] = []
    timed, doubtful = 0, 0.0
    known = known_of(trace, kernel)
    for work in works:
        timed += sum(launch.duration_ns is not None for launch in launches if launch.work == work.id)
        parts = alike_launches(work, launches, known)
        if not parts:
            total = None if work.ran else total
            continue
        total = None if total is None else total + sum(part.total_ns for part in parts)
        for part in parts:
            doubtful += fmean(own - min(own, least) for own, least in part.bounds) * part.ran
        usual = parts[-1]  # a cold launch, before them, is all that it stands for
        lengths = np.array([usual.lengths]) * (usual.ran / len(usual.lengths))
        spreads.append(spread_of_total(lengths, in_order=True))
    ran = sum(work.ran for work in works)
    error = float(together(spreads).half_width()[0]) if spreads and total is not None else inf
    if kernel.clock.is_simulated and kernel.layout is None and timed >= ran:
        error = 0.0  # no launch is a sample of others
    programs = accounted(trace, kernel)
    return {
        "accounted": None if programs is None else min(1.0, programs.percent / 100),
        "kernel": kernel.id,
        "target": kernel.target,
        "total_ns": total,
        "low_ns": max(0.0, total - error - doubtful) if total is not None and isfinite(error) else None,
        "high_ns": total + error if total is not None and isfinite(error) else None,
        "launches": ran,
        "recorded": sum(launch.probed for launch in launches),
        "each_ns": total / ran if total is not None and ran else None,
        "estimate": timed < ran,
    }
