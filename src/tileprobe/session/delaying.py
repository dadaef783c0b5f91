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
from tileprobe.tools.slopes import DOSES, Slope, median_of, slope_of
from tileprobe.trace import Trace

PLAN = Plan(loops=True, iterations=True, kinds=("all",))
LOOKS = 5  # launches with records, to know which regions there are and what they take
SHARE = 0.05  # of the kernel's time that one dose is meant to add
LEAST_TICKS = 60  # a shorter delay is not much longer than reading the clock twice
MOST = 12  # regions, those that take the most time
_WIDE = ("kernel", "loop", "iteration", "scope")


@dataclass(frozen=True)
class Delayed:
    """A region: `ns` is what it takes of a launch, all programs together; `exposed_ns` of the launch's time for each
    core, if all of it showed; `saved` the share of the launch that is won if it took no time."""

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
    """A kernel: `took_ns` is the median of its launches without delays."""

    kernel: str
    took_ns: float
    took_error: float | None
    regions: list[Delayed]


def ask(
    launch: Relaunch, target: Target, word: str, seconds: float, progress: Callable[[str], None]
) -> Asked:
    """Delays each region, or those whose names have `word` in them, for at most so many seconds."""
    trace = _looked_at(launch)
    kernel = trace.kernels[0]
    found = _regions(trace, word)
    if not found:
        which = f"called {word!r} " if word else ""
        names = ", ".join(region.name for region in trace.regions if region.kind != "kernel")
        raise TileProbeError(
            f"{kernel.name} has no region {which}that can be delayed; it has {names or 'none'}"
        )
    hz, took = target.clock.hz(), float(np.median([_timed(launch, None, target) for _ in range(LOOKS)]))
    programs = int(np.prod(trace.launches[0].grid))
    cores = max(1, min(target.workers(), programs))
    chosen = {number: _ticks(count, took, cores, hz) for number, (_, count) in found.items()}
    modes = {
        (number, dose): _mode(number, dose * ticks, target.structure)
        for number, ticks in chosen.items()
        for dose in DOSES
    }
    times = _turns(launch, target, modes, seconds, progress)
    plain = times.pop("plain")
    median, error = median_of(np.array(plain))
    rows = []
    for number, (ns, count) in found.items():
        region = next(r for r in trace.regions if r.id == number)
        step = chosen[number] / hz * 1e9 * count / cores
        rounds = min(len(times[number, dose]) for dose in DOSES)
        slope = slope_of(np.array([times[number, dose][:rounds] for dose in DOSES]).T, step)
        whole = ns / cores / median
        saved = None if slope.error is None else slope.error * whole
        rows.append(
            Delayed(region.name, region.file, region.first_line, ns, slope, step, slope.value * whole, saved)
        )
    rows.sort(key=lambda row: -row.saved)
    return Asked(kernel.name, median, error, rows)


def _looked_at(launch: Relaunch) -> Trace:
    """The kernel's regions, by launches with records."""
    with Session(tools=(), plan=PLAN, programs="all", alternate=False) as session:
        for _ in range(LOOKS):
            launch.run()
            launch.restore()
    if not session.trace.kernels:
        raise TileProbeError(f"{launch.name}: nothing was recorded of it")
    return session.trace


def _regions(trace: Trace, word: str) -> dict[int, tuple[float, float]]:
    """Regions that can be delayed, with their time and how often they run, of a launch."""
    import polars as pl

    known = {r.id: r for r in trace.kernel_regions(trace.kernels[0].id)}
    wanted = [
        n
        for n, r in known.items()
        if (word in r.name if word else r.kind not in _WIDE) and r.kind != "kernel"
    ]
    frame = trace.scan().filter(pl.col("region").is_in(wanted) & (pl.col("kind") == "region"))
    ns = (pl.col("stop_ns") - pl.col("start_ns") - pl.col("taken_ns")) * pl.col("weight") * pl.col("fit")
    sums = frame.group_by("region").agg(
        ns.sum().alias("ns"), pl.col("weight").sum().alias("count"), pl.col("launch").n_unique().alias("n")
    )
    rows = sums.sort("ns", descending=True).head(MOST).collect().iter_rows(named=True)
    return {row["region"]: (row["ns"] / row["n"], row["count"] / row["n"]) for row in rows}


def _timed(launch: Relaunch, mode: str | None, target: Target) -> float:
    launch.restore()
    took = taken_ns(lambda: launch.run(mode), target)
    if took is None:
        raise TileProbeError(f"{launch.name}: this target does not say how long launches take")
    return took


def _ticks(count: float, took: float, cores: int, hz: float) -> int:
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
