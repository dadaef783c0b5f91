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
from tileprobe.session.relaunching import Relaunch, Took, taken
from tileprobe.session.session import Session
from tileprobe.session.wanted import is_meant, lines_meant
from tileprobe.targets.base import Target
from tileprobe.tools.plan import Plan
from tileprobe.tools.slopes import (
    DOSES,
    Gain,
    Slope,
    alike,
    beside_each_other,
    gain_of,
    median_of,
    sharing,
    slope_of,
)
from tileprobe.tools.times import cost_doubt
from tileprobe.trace import Region, Trace

PLAN = Plan(loops=True, iterations=True, kinds=("all",))
PROGRAMS = Plan()  # which unit runs which program when, and nothing within
LOOKS = 15  # launches with records, to know which regions there are and what they take
DOSED = 4  # times as many run, some without records and some with more, to know what records cost
COLD = 2  # more in front of them: memory and code are in no cache yet
SHARE = 0.05  # of the kernel's time that one dose is meant to add
LATE_TICKS = 30  # one reading of the clock, by which a delay may end late
LEAST_TICKS = (
    4 * LATE_TICKS
)  # of which one dose is made, and by which all of them are longer: the end of a spin costs
# as much as it does (a branch that goes another way), and the kernel that others are held against has that, too
MOST = 12  # regions, those that take the most time
_WIDE = ("kernel", "loop", "iteration", "scope")


@dataclass(frozen=True)
class Delayed:
    """A region. `ns` is what it takes of a launch, all programs together, and `share` what that is of all that programs
    take; `saved` is what of the launch is won if it took no time. No core has more than `most` of its time in it, so
    that no launch can win more. `alike` of `slope.rounds` rounds had launches on as many cores, and count."""

    name: str
    file: str
    line: int
    ns: float
    share: float
    most: float
    slope: Slope
    dose_ns: float  # that one dose adds to a core's time, of a launch
    saved: Gain
    cores: float  # that share its delay
    rounds: int  # that were run, with those that do not count


@dataclass(frozen=True)
class Asked:
    """A kernel: `took_ns` is the median of its launches without delays, `cores` how many share what is added to its
    programs; nine of ten launches without delays had between `cores_low` and `cores_high` at work in the mean."""

    kernel: str
    took_ns: float
    took_error: float | None
    cores: float
    cores_low: float
    cores_high: float
    regions: list[Delayed]


@dataclass(frozen=True)
class _Look:
    """A region in recorded launches: of each launch the share of the programs' time, the largest such share of a core,
    and how often it ran in each program (`unit` of each)."""

    shares: np.ndarray
    most: float
    program_ns: float  # of all programs of a launch
    records: float  # what its records cost, as a share of the programs' time
    count: float  # executions of a launch
    programs: list[tuple[np.ndarray, np.ndarray, int]]  # units, executions, the unit that ended last


def ask(
    launch: Relaunch, target: Target, word: str, seconds: float, progress: Callable[[str], None]
) -> Asked:
    """Delays each region, or those whose names have `word` in them, for at most so many seconds."""
    trace = _looked_at(launch, PLAN, seconds / 2)
    kernel = trace.kernels[0]
    found = _regions(trace, word)
    if not found:
        which = f"called {word!r} " if word else ""
        names = ", ".join(region.name for region in trace.regions if region.kind != "kernel")
        raise TileProbeError(
            f"{kernel.name} has no region {which}that can be delayed; it has {names or 'none'}"
        )
    hz = target.clock.hz()
    took = float(np.median([_timed(launch, None, target).ns for _ in range(LOOKS)]))
    cores, were = _cores(launch, seconds / 4)
    chosen = {number: _ticks(look.count, took, float(np.median(cores)), hz) for number, look in found.items()}
    modes = {
        (number, dose): _mode(number, LEAST_TICKS + dose * ticks, target.structure)
        for number, ticks in chosen.items()
        for dose in DOSES
    }
    times = _turns(launch, target, modes, seconds, progress)
    after, were_after = _cores(launch, seconds / 4)  # as it was before the delays and after
    shared, around = median_of(np.array([*cores, *after]))
    plain = times.pop("plain")
    at_work = np.array([each.cores for each in plain])
    # Launches without records may have had more cores, or fewer, than those that were recorded
    other = float(np.median(at_work)) / float(np.median([*were, *were_after]))
    spread = (around or 0.0) / shared + abs(1 - other)
    median, error = median_of(np.array([each.ns for each in plain]))
    busy = float(np.median([each.busy_ns or each.ns for each in plain]))
    doubt = cost_doubt(kernel)
    unsure = float(np.hypot(doubt.all_alike, doubt.split))
    rows: list[Delayed] = []
    for number, look in found.items():
        region = next(r for r in trace.regions if r.id == number)
        doses = [times[number, dose] for dose in DOSES]
        ns = chosen[number] / hz * 1e9
        rows.append(_row(region, look, doses, ns, chosen[number], shared, spread, busy, unsure))
    rows.sort(key=lambda row: (not row.saved.told, -row.saved.value))
    low, high = (float(each) for each in np.quantile(at_work, (0.05, 0.95)))
    return Asked(kernel.name, median, error, shared, low, high, rows)


def _row(
    region: Region, look: _Look, doses: list[list[Took]], ns: float, ticks: int, shared: float, spread: float,
    busy: float, unsure: float,
) -> Delayed:  # fmt: skip
    """From the launches of each dose, which made each execution longer by `ns`, or twice or three times that. Of what
    its records cost a part `unsure` is not known."""
    rounds = min(map(len, doses))
    took = np.array([[each.ns for each in dose[:rounds]] for dose in doses]).T
    units = np.array([[each.cores for each in dose[:rounds]] for dose in doses]).T
    kept = alike(units)
    took, units = took[kept], units[kept]
    mine = float(np.median([sharing(shared, *each) for each in look.programs]))
    late = LATE_TICKS / ticks
    shown = slope_of(took, ns * look.count / mine, late)
    # Beside short programs threads have other things to do: what programs were recorded with is all that can be won
    programs = min(1.0, look.program_ns / busy) if busy > 0 else 1.0
    share, off = median_of(programs * look.shares)
    # Of each round, what a nanosecond less of the region would bring: how many cores there were cancels out
    won = slope_of(took * units[:, :1], ns * look.count, late)
    error = None
    if won.error is not None and off is not None:
        error = won.error * share + abs(won.value) * (off + unsure * programs * look.records)
    most, slope = min(programs * look.most, 1.0), shown.scaled(spread).bounded()
    saved = gain_of(won.value * share, error, most)
    return Delayed(
        region.name, region.file, region.first_line, share * busy, share, most, slope, ns * look.count / mine, saved,
        mine, rounds,
    )  # fmt: skip


def _cores(launch: Relaunch, seconds: float) -> tuple[list[float], list[float]]:
    """How many share what is added to programs, and how many are at work: of each launch of some that are recorded as
    lightly as can be."""
    import polars as pl

    trace = _looked_at(launch, PROGRAMS, seconds)
    whole = [region.id for region in trace.regions if region.kind == "kernel"]
    frame = trace.scan().filter(pl.col("region").is_in(whole) & (pl.col("kind") == "region"))
    columns = frame.select("launch", "unit", "start_ns", "stop_ns").collect()
    found = beside_each_other(*(column.to_numpy() for column in columns))
    took = [
        Took(each.duration_ns, (each.ran_ns or each.duration_ns) + (each.preempted_ns or 0.0))
        for each in trace.launches
        if each.duration_ns
    ]
    return found[np.isfinite(found)].tolist() or [1.0], [each.cores for each in took] or [1.0]


def _looked_at(launch: Relaunch, plan: Plan, seconds: float) -> Trace:
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


def _regions(trace: Trace, word: str) -> dict[int, _Look]:
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
        .drop("region", "count", "probes_ns")
        .rename({"ns": "program_ns"})
    )
    looks = {number: _look(programs, rows.filter(pl.col("region") == number)) for number in wanted}
    usual = {number: float(np.median(look.shares)) for number, look in looks.items() if look.count}
    return {n: looks[n] for n in sorted(usual, key=lambda n: -usual[n])[:MOST]}


def _look(programs: Any, mine: Any) -> _Look:
    """Of a region, from the time of all programs and its time in those that ran it."""
    import polars as pl

    joined = programs.join(
        mine.drop("region", "end"), on=["launch", "unit", "program"], how="left"
    ).fill_null(0)
    cores = joined.group_by("launch", "unit", maintain_order=True).agg(
        pl.col("ns", "program_ns", "count", "probes_ns").sum()
    )
    sums = cores.group_by("launch", maintain_order=True).agg(
        pl.col("ns", "program_ns", "count", "probes_ns").sum(),
        (pl.col("ns") / pl.col("program_ns")).max().alias("most"),
    )
    each = [
        (one["unit"].to_numpy(), one["count"].to_numpy(), int(one["unit"][int(one["end"].arg_max() or 0)]))
        for one in joined.partition_by("launch", maintain_order=True)
    ]
    shares = (sums["ns"] / sums["program_ns"]).clip(0.0, 1.0).to_numpy()
    most = min(1.0, float(sums["most"].median() or 0.0))  # type: ignore[arg-type]
    records = float((sums["probes_ns"] / sums["program_ns"]).median() or 0.0)  # type: ignore[arg-type]
    whole = float(sums["program_ns"].median() or 0.0)  # type: ignore[arg-type]
    return _Look(shares, most, whole, records, float(sums["count"].mean() or 0.0), each)  # type: ignore[arg-type]


def _timed(launch: Relaunch, mode: str | None, target: Target) -> Took:
    launch.restore()
    took = taken(lambda: launch.run(mode), target)
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
) -> dict[Any, list[Took]]:  # fmt: skip
    """Rounds of all doses of all regions, as many as there is time for; at least one. The order of the doses turns
    with each round."""
    times: dict[Any, list[Took]] = {"plain": [], **{key: [] for key in modes}}
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
