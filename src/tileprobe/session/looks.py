"""Regions in recorded launches: what share of all that a launch's threads did was theirs.

In comes a launch that can be run again; out goes a `Look` at each region. A core works ahead, so that where a region
ends is not sharp: it is looked at as it runs, and once more with fences at its ends, alone.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.session.relaunching import Relaunch, Took
from tileprobe.session.session import Session
from tileprobe.session.wanted import is_meant, lines_meant
from tileprobe.tools.plan import Plan
from tileprobe.tools.slopes import FEW, alike, beside, median_of
from tileprobe.trace import Trace

PLAN = Plan(loops=True, iterations=True, kinds=("all",))
LOOPS = Plan(loops=True)  # whole loops, without what records within cost
LOOKS = 15  # launches with records, to know which regions there are and what they take
DOSED = 4  # times as many run, some without records and some with more, to know what records cost
COLD = 2  # more in front of them: memory and code are in no cache yet
MOST = 12  # regions, those that take the most time
_WIDE = ("kernel", "loop", "iteration", "scope")
_WHOLE = ("loop", "scope")


@dataclass(frozen=True)
class Look:
    """A region in recorded launches: of each launch the share of all that its threads did, and how many cores were at
    work; the largest such share of a core, and how often it ran in each program (`unit` of each)."""

    shares: np.ndarray
    cores: np.ndarray
    most: float
    records: float  # what its records cost, as a share of the programs' time
    count: float  # executions of a launch
    programs: list[tuple[np.ndarray, np.ndarray, int]]  # units, executions, the unit that ended last

    def share(self, usual: float) -> tuple[float, float | None]:
        """Of launches that about as many cores as `usual` worked at, if there are some; with half its 95 % interval."""
        like = alike(beside(self.cores, usual))
        return median_of(self.shares[like] if like.sum() >= FEW else self.shares)


def looked_at(launch: Relaunch, plan: Plan, seconds: float) -> Trace:
    """Launches with records, and some without to know what these cost: fewer of those that take long."""
    until = time.monotonic() + seconds
    with Session(tools=(), plan=plan, programs="all", skip=COLD) as session:
        for n in range(COLD + DOSED * LOOKS):
            if n >= COLD + LOOKS and time.monotonic() > until:
                break
            launch.run()
            launch.restore()
    if not session.trace.kernels:
        raise TileProbeError(f"{launch.name}: nothing was recorded of it")
    return session.trace


def looks_without(
    launch: Relaunch, trace: Trace, found: dict[int, Look], word: str, seconds: float
) -> tuple[dict[int, Look], dict[int, Look]]:
    """The same regions alone: with fences at their ends. And as they are, without what disturbs: what records cost is
    known to some percent, and a loop of short rounds has more of it than anything else is off by, so that loops and
    scopes are looked at with no records within."""
    names = _named(trace)
    whole = {names[r.id] for r in trace.regions if r.id in found and r.kind in _WHOLE}
    alone, usual = dict(found), dict(found)
    ways = [(LOOPS, usual, True), (replace(LOOPS, fenced=True), alone, True)] if whole else []
    if len(whole) < len(found):
        ways.append((replace(PLAN, fenced=True), alone, False))
    for plan, into, wholes in ways:
        again = looked_at(launch, plan, seconds)
        looks = {name: number for number, name in _named(again).items()}
        seen = regions_in(again, word)
        for number, old in found.items():
            look = seen.get(looks.get(names[number], -1))
            if look is not None and (names[number] in whole) == wholes:
                into[number] = replace(look, count=old.count, programs=old.programs)
    return alone, usual


def _named(trace: Trace) -> dict[int, tuple[Any, ...]]:
    """What a region is called wherever it is: with its number among those that are called the same."""
    times: Counter[tuple[Any, ...]] = Counter()
    named: dict[int, tuple[Any, ...]] = {}
    for region in sorted(trace.regions, key=lambda each: each.id):
        name = (region.kind, region.name, region.file, region.first_line)
        times[name] += 1
        named[region.id] = (*name, times[name])
    return named


def regions_in(trace: Trace, word: str) -> dict[int, Look]:
    """Regions that can be delayed, those that take the most time."""
    import polars as pl

    known = {r.id: r for r in trace.kernel_regions(trace.kernels[0].id)}
    wide = ("kernel",) if word and lines_meant(word) is None else _WIDE
    wanted = [
        n
        for n, r in known.items()
        if r.kind not in wide and is_meant(word, r.name, r.file, r.first_line, r.last_line)
    ]
    whole = [n for n, r in known.items() if r.kind == "kernel"]
    ns = (pl.col("stop_ns") - pl.col("start_ns") - pl.col("taken_ns")) * pl.col("weight") * pl.col("fit")
    rows = (
        trace.scan()
        .filter(pl.col("region").is_in([*wanted, *whole]) & (pl.col("kind") == "region"))
        .group_by("launch", "unit", "program", "region")
        .agg(
            ns.sum().alias("ns"),
            (pl.col("probes_ns") * pl.col("weight") * pl.col("fit")).sum().alias("probes_ns"),
            pl.col("weight").sum().alias("count"),
            pl.col("stop_ns").max().alias("end"),
        )
        .collect()
    )
    programs = (
        rows.filter(pl.col("region").is_in(whole))
        .drop("region", "count")
        .rename({"ns": "program_ns", "probes_ns": "all_probes_ns"})
    )
    took = {
        each.id: Took(each.duration_ns, each.ran_ns and each.ran_ns + (each.preempted_ns or 0.0))
        for each in trace.launches
        if each.duration_ns
    }
    ran = {each.id: each.ran_ns or each.duration_ns or 0.0 for each in trace.launches}
    looks = {number: _look(programs, rows.filter(pl.col("region") == number), took, ran) for number in wanted}
    usual = {number: float(np.median(look.shares)) for number, look in looks.items() if look.count}
    return {n: looks[n] for n in sorted(usual, key=lambda n: -usual[n])[:MOST]}


def _look(programs: Any, mine: Any, took: dict[int, Took], ran: dict[int, float]) -> Look:
    """Of a region, from the time of all programs and its time in those that ran it. Threads also do what is between
    programs; what records cost they would not do without, and what the system took of them is nobody's."""
    import polars as pl

    joined = programs.join(
        mine.drop("region", "end"), on=["launch", "unit", "program"], how="left"
    ).fill_null(0)
    summed = pl.col("ns", "program_ns", "count", "probes_ns", "all_probes_ns").sum()
    cores = joined.group_by("launch", "unit", maintain_order=True).agg(summed)
    sums = cores.group_by("launch", maintain_order=True).agg(
        summed, (pl.col("ns") / pl.col("program_ns")).max().alias("most")
    )
    each = [
        (one["unit"].to_numpy(), one["count"].to_numpy(), int(one["unit"][int(one["end"].arg_max() or 0)]))
        for one in joined.partition_by("launch", maintain_order=True)
    ]
    ns, whole = sums["ns"].to_numpy(), sums["program_ns"].to_numpy()
    each_took = [took.get(launch) or Took(0.0) for launch in sums["launch"]]
    busy = np.array([ran.get(launch, 0.0) for launch in sums["launch"]]) - sums["all_probes_ns"].to_numpy()
    within = np.minimum(1.0, whole / np.maximum(busy, whole))
    most = min(1.0, float(np.median(within * sums["most"].to_numpy()) if len(ns) else 0.0))
    records = float(np.median(sums["probes_ns"].to_numpy() / whole)) if len(ns) else 0.0
    shares = within * np.clip(ns / whole, 0.0, 1.0)
    at_work = np.array([one.cores for one in each_took])
    return Look(shares, at_work, most, records, float(sums["count"].mean() or 0.0), each)  # type: ignore[arg-type]
