"""How critical each region of a kernel is on a machine that cannot be asked: by delaying it and looking.

In comes a launch that can be run again; out goes a row for each region: how long it takes, the slope of the kernel's
time over its delay, and what that says a faster region would bring. Doses of all regions take turns, so that what the
machine does meanwhile happens to all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.mode import with_pipeline
from tileprobe.session.relaunching import Relaunch, taken_ns
from tileprobe.session.session import Session
from tileprobe.targets.base import Target
from tileprobe.tools.plan import Plan
from tileprobe.tools.slopes import DOSES, Slope, beside_each_other, median_of, slope_of
from tileprobe.trace import Trace

PLAN = Plan(loops=True, iterations=True, kinds=("all",))
PROGRAMS = Plan()  # which unit runs which program when, and nothing within
LOOKS = 9  # launches with records, to know which regions there are and what they take
SHARE = 0.05  # of the kernel's time that one dose is meant to add
LEAST_TICKS = 60  # a shorter delay is not much longer than reading the clock twice
LATE_TICKS = LEAST_TICKS / 2  # one reading, by which a delay may end late; one of 0 ticks does not
MOST = 12  # regions, those that take the most time
_WIDE = ("kernel", "loop", "iteration", "scope")


@dataclass(frozen=True)
class Delayed:
    """A region: `ns` is what it takes of a launch, all programs together; `saved` the share of the launch that is won
    if it took no time. Its error has that of the kernel's time over the delay and that of `ns`, and is None where the
    first cannot be told. That of the slope has in addition that of how many cores share the delay."""

    name: str
    file: str
    line: int
    ns: float
    slope: Slope
    dose_ns: float  # that one dose adds to a core's time, of a launch
    saved: float
    saved_error: float | None


@dataclass(frozen=True)
class Asked:
    """A kernel: `took_ns` is the median of its launches without delays, `cores` how many share what is added to its
    programs."""

    kernel: str
    took_ns: float
    took_error: float | None
    cores: float
    regions: list[Delayed]


def ask(
    launch: Relaunch, target: Target, word: str, seconds: float, progress: Callable[[str], None]
) -> Asked:
    """Delays each region, or those whose names have `word` in them, for at most so many seconds."""
    trace = _looked_at(launch, PLAN)
    kernel = trace.kernels[0]
    found = _regions(trace, word)
    if not found:
        which = f"called {word!r} " if word else ""
        names = ", ".join(region.name for region in trace.regions if region.kind != "kernel")
        raise TileProbeError(
            f"{kernel.name} has no region {which}that can be delayed; it has {names or 'none'}"
        )
    hz, took = target.clock.hz(), float(np.median([_timed(launch, None, target) for _ in range(LOOKS)]))
    cores = _cores(launch)
    chosen = {
        number: _ticks(count, took, float(np.median(cores)), hz) for number, (_, count) in found.items()
    }
    modes = {
        (number, dose): _mode(number, dose * ticks, target.structure)
        for number, ticks in chosen.items()
        for dose in DOSES
    }
    times = _turns(launch, target, modes, seconds, progress)
    shared, around = median_of(np.array([*cores, *_cores(launch)]))  # as it was before the delays and after
    spread = around / shared if around is not None else 0.0
    median, error = median_of(np.array(times.pop("plain")))
    rows = []
    for number, (each, count) in found.items():
        region = next(r for r in trace.regions if r.id == number)
        step = chosen[number] / hz * 1e9 * count / shared
        rounds = min(len(times[number, dose]) for dose in DOSES)
        shown = slope_of(
            np.array([times[number, dose][:rounds] for dose in DOSES]).T, step, LATE_TICKS / chosen[number]
        )
        slope = shown.scaled(spread)
        ns, off = median_of(each)
        whole = ns / shared / median
        saved = None
        if shown.told and shown.error is not None and off is not None:
            saved = shown.error * whole + abs(shown.value) * off / shared / median
        rows.append(
            Delayed(region.name, region.file, region.first_line, ns, slope, step, shown.value * whole, saved)
        )
    rows.sort(key=lambda row: -row.saved)
    return Asked(kernel.name, median, error, shared, rows)


def _cores(launch: Relaunch) -> list[float]:
    """How many share what is added to programs: of each launch of some that are recorded as lightly as can be."""
    import polars as pl

    trace = _looked_at(launch, PROGRAMS)
    whole = [region.id for region in trace.regions if region.kind == "kernel"]
    frame = trace.scan().filter(pl.col("region").is_in(whole) & (pl.col("kind") == "region"))
    columns = frame.select("launch", "unit", "start_ns", "stop_ns").collect()
    found = beside_each_other(*(column.to_numpy() for column in columns))
    return found[np.isfinite(found)].tolist() or [1.0]


def _looked_at(launch: Relaunch, plan: Plan) -> Trace:
    """Launches with records."""
    with Session(tools=(), plan=plan, programs="all", alternate=False) as session:
        for _ in range(LOOKS):
            launch.run()
            launch.restore()
    if not session.trace.kernels:
        raise TileProbeError(f"{launch.name}: nothing was recorded of it")
    return session.trace


def _regions(trace: Trace, word: str) -> dict[int, tuple[np.ndarray, float]]:
    """Regions that can be delayed, with what they took of each launch and how often they run in one."""
    import polars as pl

    known = {r.id: r for r in trace.kernel_regions(trace.kernels[0].id)}
    wanted = [
        n
        for n, r in known.items()
        if (word in r.name if word else r.kind not in _WIDE) and r.kind != "kernel"
    ]
    frame = trace.scan().filter(pl.col("region").is_in(wanted) & (pl.col("kind") == "region"))
    ns = (pl.col("stop_ns") - pl.col("start_ns") - pl.col("taken_ns")) * pl.col("weight") * pl.col("fit")
    sums = frame.group_by("region", "launch").agg(ns.sum().alias("ns"), pl.col("weight").sum().alias("count"))
    rows = sums.group_by("region").agg(
        pl.col("ns"), pl.col("count").mean(), pl.col("ns").median().alias("usual")
    )
    longest = rows.sort("usual", descending=True).head(MOST).collect().iter_rows(named=True)
    return {row["region"]: (np.array(row["ns"]), row["count"]) for row in longest}


def _timed(launch: Relaunch, mode: str | None, target: Target) -> float:
    launch.restore()
    took = taken_ns(lambda: launch.run(mode), target)
    if took is None:
        raise TileProbeError(f"{launch.name}: this target does not say how long launches take")
    return took


def _ticks(count: float, took: float, cores: float, hz: float) -> int:
    """Of one dose."""
    return max(LEAST_TICKS, round(SHARE * took * cores / max(count, 1.0) * hz / 1e9))


def _mode(number: int, ticks: int, structure: str) -> str:
    """As Triton takes it. The regions are numbered as in the trace, by the same passes."""
    pipeline = PLAN.pipeline(structure, level="probe")
    return with_pipeline("", f'{pipeline},delay{{region="#{number}" ticks={ticks} structure={structure}}}')


def _turns(
    launch: Relaunch, target: Target, modes: dict[tuple[int, int], str], seconds: float,
    progress: Callable[[str], None],
) -> dict[Any, list[float]]:  # fmt: skip
    """Rounds of all doses of all regions, as many as there is time for; at least one. The order of the doses turns
    with each round."""
    times: dict[Any, list[float]] = {"plain": [], **{key: [] for key in modes}}
    numbers = list(dict.fromkeys(number for number, _ in modes))
    for key, mode in modes.items():  # compiled before anything is timed
        progress(f"{launch.name}: compiling delays of region {numbers.index(key[0]) + 1} of {len(numbers)}")
        _timed(launch, mode, target)
    until, turn = time.monotonic() + seconds, 0
    while turn < 8 or time.monotonic() < until:
        if turn and time.monotonic() > until + seconds:
            break
        progress(f"{launch.name}: round {turn + 1}")
        for number in numbers:
            times["plain"].append(_timed(launch, None, target))
            doses = np.roll(DOSES, turn)
            for dose in doses.tolist():
                times[number, dose].append(_timed(launch, modes[number, dose], target))
        turn += 1
    return times
