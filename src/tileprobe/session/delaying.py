"""How critical each region of a kernel is on a machine that cannot be asked: by delaying it and looking.

In comes a launch that can be run again; out goes a row for each region: how long it takes, the slope of the kernel's
time over its delay, and what that says a faster region would bring. Doses of all regions take turns, so that what the
machine does meanwhile happens to all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.mode import with_pipeline
from tileprobe.session.looks import LOOKS, PLAN, Look, looked_at, looks_without, regions_in
from tileprobe.session.relaunching import Relaunch, Took, timed
from tileprobe.targets.base import Target
from tileprobe.tools.plan import Plan
from tileprobe.tools.slopes import (
    DOSES,
    Gain,
    Slope,
    alike,
    beside,
    beside_each_other,
    gain_of,
    median_of,
    sharing,
    slope_of,
)
from tileprobe.tools.times import cost_doubt
from tileprobe.trace import Region

PROGRAMS = Plan()  # which unit runs which program when, and nothing within
SHARE = 0.05  # of the kernel's time that one dose is meant to add
LATE_TICKS = 30  # one reading of the clock, by which a delay may end late
LEAST_TICKS = (
    4 * LATE_TICKS
)  # of which one dose is made, and by which all of them are longer: the end of a spin costs
# as much as it does (a branch that goes another way), and the kernel that others are held against has that, too


@dataclass(frozen=True)
class Delayed:
    """A region. `ns` is what it takes of a launch alone, all programs together, and `share` what that is of all that
    threads do; `overlapping` is that share with its ends as they run, where a core works ahead. `saved` is what of the
    launch is won if it took no time. No core has more than `most` of its time in it, so that no launch can win more. Of
    `rounds` rounds `slope.rounds` had launches on as many cores, and count."""

    name: str
    file: str
    line: int
    ns: float
    share: float
    overlapping: float
    most: float
    slope: Slope
    dose_ns: float  # that one dose adds to a core's time, of a launch
    saved: Gain
    cores: float  # that share its delay
    rounds: int  # that were run, with those that do not count


@dataclass(frozen=True)
class Asked:
    """A kernel: `took_ns` is the median of its launches without delays, `cores` how many share what is added to its
    programs. Launches without delays had `at_work` cores at work in the mean, nine of ten between `cores_low` and
    `cores_high`; what is said is of launches about as many worked at."""

    kernel: str
    took_ns: float
    took_error: float | None
    cores: float
    at_work: float
    cores_low: float
    cores_high: float
    regions: list[Delayed]


def ask(
    launch: Relaunch, target: Target, word: str, seconds: float, progress: Callable[[str], None]
) -> Asked:
    """Delays each region, or those whose names have `word` in them, for at most so many seconds."""
    trace = looked_at(launch, PLAN, seconds / 2)
    kernel = trace.kernels[0]
    found = regions_in(trace, word)
    if not found:
        which = f"called {word!r} " if word else ""
        names = ", ".join(region.name for region in trace.regions if region.kind != "kernel")
        raise TileProbeError(
            f"{kernel.name} has no region {which}that can be delayed; it has {names or 'none'}"
        )
    alone, found = looks_without(launch, trace, found, word, seconds / 4)
    hz = target.clock.hz()
    took = float(np.median([timed(launch, target).ns for _ in range(LOOKS)]))
    cores, were = _cores(launch, seconds / 4)
    chosen = {number: _ticks(look.count, took, float(np.median(cores)), hz) for number, look in found.items()}
    modes = {
        (number, dose): _mode(number, LEAST_TICKS + dose * ticks, target.structure)
        for number, ticks in chosen.items()
        for dose in DOSES
    }
    times = _turns(launch, target, modes, seconds, progress)
    plain = [each for number in found for each in times[number, None]]
    after, were_after = _cores(launch, seconds / 4)  # as it was before the delays and after
    shared, around = median_of(np.array([*cores, *after]))
    at_work = np.array([each.cores for each in plain])
    usual = float(np.median(at_work))
    # Launches without records may have had more cores, or fewer, than those that were recorded
    other = usual / float(np.median([*were, *were_after]))
    spread = (around or 0.0) / shared + abs(1 - other)
    plain = [each for each, like in zip(plain, alike(beside(at_work, usual))) if like]
    median, error = median_of(np.array([each.ns for each in plain]))
    busy = float(np.median([each.busy_ns or each.ns for each in plain]))
    doubt = cost_doubt(kernel)
    unsure = float(np.hypot(doubt.all_alike, doubt.split))
    rows: list[Delayed] = []
    for number, look in found.items():
        region = next(r for r in trace.regions if r.id == number)
        doses = [times[number, dose] for dose in DOSES]
        ns = chosen[number] / hz * 1e9
        rows.append(
            _row(region, look, alone[number], doses, ns, chosen[number], shared, spread, busy, usual, unsure)
        )
    rows.sort(key=lambda row: (not row.saved.told, -row.saved.value))
    low, high = (float(each) for each in np.quantile(at_work, (0.05, 0.95)))
    return Asked(kernel.name, median, error, shared, usual, low, high, rows)


def _row(
    region: Region, look: Look, alone: Look, doses: list[list[Took]], ns: float, ticks: int, shared: float,
    spread: float, busy: float, usual: float, unsure: float,
) -> Delayed:  # fmt: skip
    """From the launches of each dose, which made each execution longer by `ns`, or twice or three times that. Of what
    its records cost a part `unsure` is not known."""
    rounds = min(map(len, doses))
    took = np.array([[each.ns for each in dose[:rounds]] for dose in doses]).T
    units = np.array([[each.cores for each in dose[:rounds]] for dose in doses]).T
    kept = alike(beside(units, usual))
    took, units = took[kept], units[kept]
    mine = float(np.median([sharing(shared, *each) for each in look.programs]))
    late = LATE_TICKS / ticks
    shown = slope_of(took, ns * look.count / mine, late)
    estimates = [look.share(usual) for look in (alone, look)]
    share, overlapping = (each for each, _ in estimates)
    # Of each round, what a nanosecond less of the region would bring: how many cores there were cancels out
    won = slope_of(took * units[:, :1], ns * look.count, late)
    error, most = (
        None,
        min(1.0, max(each.most for each in (alone, look)) + max(off or 0.0 for _, off in estimates)),
    )
    offs = [each for _, each in estimates]
    if won.error is not None and None not in offs:
        wide = max(off + unsure * each.records for off, each in zip(offs, (alone, look)) if off is not None)
        error = won.error * max(share, overlapping) + abs(won.value) * wide
    slope = shown.scaled(spread).bounded()
    saved = gain_of(won.value * share, error, most, won.value * overlapping)
    return Delayed(
        region.name, region.file, region.first_line, share * busy, share, overlapping, most, slope,
        ns * look.count / mine, saved, mine, rounds,
    )  # fmt: skip


def _cores(launch: Relaunch, seconds: float) -> tuple[list[float], list[float]]:
    """How many share what is added to programs, and how many are at work: of each launch of some that are recorded as
    lightly as can be."""
    import polars as pl

    trace = looked_at(launch, PROGRAMS, seconds)
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
) -> dict[tuple[int, int | None], list[Took]]:  # fmt: skip
    """Rounds of all doses of all regions, and of the launch as it is (None), as many as there is time for; at least
    one. The order of the doses turns with each round."""
    numbers = list(dict.fromkeys(number for number, _ in modes))
    times: dict[tuple[int, int | None], list[Took]] = {key: [] for key in modes}
    times |= {(number, None): [] for number in numbers}
    for key, mode in modes.items():  # compiled before anything is timed
        progress(f"{launch.name}: compiling delays of region {numbers.index(key[0]) + 1} of {len(numbers)}")
        timed(launch, target, mode)
    until, turn = time.monotonic() + seconds, 0
    while turn < 8 or time.monotonic() < until:
        if turn and time.monotonic() > until + seconds:
            break
        progress(f"{launch.name}: round {turn + 1}")
        for number in numbers:
            times[number, None].append(timed(launch, target))
            doses = np.roll(DOSES, turn)
            for dose in doses.tolist():
                times[number, dose].append(timed(launch, target, modes[number, dose]))
        turn += 1
    return times
