"""Does it add up: the time of programs against that of their launches, and what the operating system took from them.

In comes a trace; out go, for a kernel, the share of its launches' time that programs account for, and the share of the
programs' time that was interrupted: taken out of all figures where it was recognised, and in doubt where it was not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, inf, isfinite, log
from typing import Any

import numpy as np
import polars as pl

from tileprobe.tools.doubt import ALONE, doubtful_ns
from tileprobe.tools.figures import LASTED, STANDS, TIME
from tileprobe.tools.programs import program_times
from tileprobe.tools.regions import region_tree
from tileprobe.tools.times import Times, region_times, samples_of
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.intervals import lanes
from tileprobe.trace.stand_ins import complete, undisturbed

BUSY = 0.1  # of the launches had to wait: then others used the caches, too
# So many times as far from all launches on a busy machine as their quickest quarter is a quiet machine. Twelve kernels
# beside two busy processes: 2.4 times for the farthest (matmul, whose tiles stay in the caches), most below 1.
COLDER = 1.5
UNLIKE = 1.5  # times as long, or as short, as its recorded iterations say: then they are not like the others
QUICK = 8  # launches, below which the quickest quarter of them says nothing
CROWDED = (
    100.0  # involuntary switches a second of processor time; one busy process beside a thread makes about 300
)
DOUBTFUL = 2.0  # percentage points, or percent of the time: with more in doubt, shares cannot be trusted


@dataclass(frozen=True)
class Accounted:
    """Percent of launch durations times `threads` that programs ran for: the median launch, and the range that nine of
    ten launches are in. The rest is the launch itself, and threads that stood idle. More than all comes out where the
    programs that were recorded took longer than those they stand for."""

    percent: float
    low: float
    high: float
    threads: int


@dataclass(frozen=True)
class Interrupted:
    """`launches` had to wait for a processor and are left out, as there were enough others like them. Those whose
    loops had no room for all iterations are left out for others (`beginnings`), or stay (`partial`). In those that
    stay, `programs` of `recorded` were interrupted, for `percent` of their time, which no figure contains. Up to
    `doubtful_percent` more was taken where it could not be told from the kernel's own time: it moves no share by more
    than `doubtful_points`. Nothing of that is `known` where the system does not say how long threads waited; then
    `outliers` programs took far longer than is usual. `error_points` is half the widest 95 % interval of a share, as
    far as launches differ; infinite where there is none. On a `busy` machine (the share of launches that had to wait)
    caches are cold even where nothing is taken: `drift_points` is how far a share in the quickest launches is from that
    in all. The loop `stretched_in` took `stretched` times as long as its recorded iterations say, by their number:
    those without a record are not like them."""

    launches: int
    programs: int
    recorded: int
    percent: float
    doubtful_percent: float
    known: bool
    outliers: int
    error_points: float
    busy: float
    drift_points: float
    beginnings: int = 0
    partial: int = 0
    doubtful_points: float = 0.0
    stretched: float = 1.0
    stretched_in: str = ""

    @property
    def steady(self) -> bool:
        """Whether shares are the same in quick launches and in slow ones, as far as intervals tell."""
        return self.off_points <= DOUBTFUL

    @property
    def off_points(self) -> float:
        """How far shares on a quiet machine may be from these: their interval, and what cold caches do."""
        return hypot(self.error_points, COLDER * self.drift_points)

    @property
    def trusted(self) -> bool:
        """Whether shares are within DOUBTFUL points of those on a quiet machine. Where nobody else was there, their
        intervals speak for themselves."""
        return self.doubtful_points <= DOUBTFUL and (self.busy <= BUSY or self.steady) and self.alike

    @property
    def alike(self) -> bool:
        """Whether iterations that were recorded are like those that they stand for."""
        return 1 / UNLIKE <= self.stretched <= UNLIKE

    @property
    def text(self) -> str:
        """In a sentence; empty when there is nothing to say."""
        said = []
        if self.doubtful_percent > DOUBTFUL:
            alone = self.doubtful_points <= DOUBTFUL
            so = "totals may be too long by that" if alone else "the shares cannot be trusted"
            said.append(
                f"the operating system took up to {self.doubtful_percent:.0f} % of the time where it could not be told "
                f"from the kernel's own: {so}"
            )
            if not alone:
                return said[0]
        if self.launches:
            waited, are = ("launch", "is") if self.launches == 1 else ("launches", "are")
            said.append(f"{self.launches:,} {waited} had to wait for a processor and {are} left out")
        if self.beginnings:
            some = "launch" if self.beginnings == 1 else "launches"
            said.append(f"{self.beginnings:,} {some} saw a part of a long loop only; others stand for it")
        if self.programs:
            some = "program" if self.programs == 1 else "programs"
            were = "was" if self.programs == 1 else "were"
            said.append(
                f"{self.programs:,} {some}, {self.percent:.1f} % of the time, {were} interrupted and taken out"
            )
        if not self.alike:
            said.append(
                f"{self.stretched_in} took {self.stretched:.1f} times as long as its recorded iterations say: those "
                f"without a record are not like them, and the shares inside cannot be trusted"
            )
        if self.busy > BUSY and not self.steady:
            points = self.off_points
            off = (
                f"shares may be off by {points:.0f} points"
                if isfinite(points)
                else "too little was recorded for shares"
            )
            said.append(f"the machine was busy, {off}: they cannot be trusted")
        if not self.known and self.outliers:
            said.append(
                f"{self.outliers:,} programs took far longer than is usual; whether interrupted is not known"
            )
        return "; ".join(said)


def accounted(trace: Trace, kernel: Kernel) -> Accounted | None:
    """None when no launch has a duration, or none was recorded, or what is counted is no time."""
    if not kernel.clock.is_time:
        return None
    runs = program_times(trace, kernel)
    timed = [x for x in trace.kernel_launches(kernel.id) if x.probed and x.duration_ns]
    alone = [x for x in timed if undisturbed(x)]  # a program that was interrupted would stand for others
    durations = {x.id: x.duration_ns or 0.0 for x in (alone if len(alone) >= ALONE else timed)}
    if not runs.height or not durations:
        return None
    grids = {launch.id: int(np.prod(launch.grid)) for launch in trace.kernel_launches(kernel.id)}
    threads = min(
        at_once(kernel, runs, multiprocessors(trace, set(durations))),
        max(grids[launch] for launch in durations),
    )
    worked = runs.group_by("launch").agg(
        ((pl.col("raw_ns") - pl.col("taken_ns")) * pl.col("weight")).sum().alias("ns")
    )
    shares = [
        100.0 * ns / (durations[launch] * min(threads, grids[launch]))
        for launch, ns in worked.iter_rows()
        if launch in durations
    ]
    if not shares:
        return None
    low, middle, high = np.quantile(shares, [0.05, 0.5, 0.95])
    return Accounted(float(middle), float(low), float(high), threads)


def multiprocessors(trace: Trace, launches: set[int]) -> int:
    """That programs of launches ran on, where a simulated GPU says so; 0 where nobody does."""
    mine = trace.counters.filter(
        (pl.col("name") == "multiprocessors") & pl.col("launch").is_in(list(launches))
    )
    return int(mine["value"].max() or 0)  # type: ignore[arg-type]


def at_once(kernel: Kernel, runs: pl.DataFrame, units: int = 0) -> int:
    """How many programs ran at a time. Where some were left out, the units tell: a core of a CPU runs one, even if a
    thread that was moved makes it seem more. `units`: how many there were in all, where some of them were left out."""
    if runs["weight"].max() == 1:
        return int(lanes(*(runs[name].to_numpy() for name in ("launch", "start_ns", "stop_ns"))).max()) + 1
    if kernel.target == "cpu":
        return runs["unit"].n_unique()
    lanes_of = runs.group_by("unit").agg(pl.col("lane").max() + 1)["lane"]
    return round(lanes_of.sum() * max(units, len(lanes_of)) / max(len(lanes_of), 1))


def interrupted(trace: Trace, kernel: Kernel, times: Times | None = None) -> Interrupted:
    times = region_times(trace) if times is None else times
    roots = [r.id for r in trace.kernel_regions(kernel.id) if r.kind == "kernel" or r.parent is None]
    mine = times.frame.filter(pl.col("region").is_in(roots))
    total, taken = float(mine["total_ns"].sum()), float(mine["taken_ns"].sum())
    whole = total + taken
    launches = [launch for launch in trace.kernel_launches(kernel.id) if launch.probed]
    known = bool(launches) and all(launch.preempted_ns is not None for launch in launches)
    known = (
        known or kernel.clock.is_simulated
    )  # nothing comes between the instructions of a simulated machine
    doubtful = doubtful_ns(trace, kernel, times)
    tree = region_tree(trace, kernel, times).filter(pl.col("kind") != "partition")
    errors = tree["share_noise"]  # what a record costs is in doubt on a quiet machine, too
    error = float(errors.max()) if len(errors) and not errors.null_count() else inf  # type: ignore[arg-type]
    return Interrupted(
        launches=sum(not times.standing[x.id] and not undisturbed(x) for x in launches),
        beginnings=sum(not times.standing[x.id] and undisturbed(x) for x in launches),
        partial=sum(times.standing[x.id] > 0 and not complete(x) for x in launches),
        programs=int(mine["interrupted"].sum()),
        recorded=int(mine["recorded_count"].sum()),
        percent=100.0 * taken / whole if whole else 0.0,
        doubtful_percent=100.0 * doubtful / whole if whole else 0.0,
        known=known,
        outliers=0 if known else _outliers(trace, roots),
        error_points=100.0 * error,
        doubtful_points=100.0 * _most_off(tree, doubtful / whole) if whole else 0.0,
        busy=_busy(trace, kernel),
        drift_points=100.0 * _drift(times, roots, samples_of(trace, times.standing, kernel.id)),
        **_stretched(trace, kernel, times),
    )


def _most_off(tree: pl.DataFrame, doubtful: float) -> float:
    """The most by which a region's own share can be off when this share of the time is somebody else's: all of it was
    taken from the region, or none as far as the others have room."""
    whole = float(tree["self_ns"].sum())
    if not 0.0 < doubtful < 1.0 or not whole:
        return max(0.0, doubtful)
    most = 0.0
    for own in (tree["self_ns"] / whole).to_list():
        for taken in (min(doubtful, own), max(0.0, doubtful - (1.0 - own))):
            most = max(most, abs(own - (own - taken) / (1.0 - doubtful)))
    return most


def _stretched(trace: Trace, kernel: Kernel, times: Times) -> dict[str, Any]:
    """The loop whose recorded iterations are least like the others, of those that matter."""
    names = {region.id: region.name for region in trace.kernel_regions(kernel.id)}
    loops = {r.id: r.parent for r in trace.kernel_regions(kernel.id) if r.kind == "iteration"}
    gone = [launch for launch, count in times.standing.items() if not count]
    mine = trace.scan().filter(pl.col("region").is_in(list(loops)) & ~pl.col("launch").is_in(gone))
    frame = (
        mine.group_by("region").agg(TIME.sum().alias("ns"), (LASTED * STANDS).sum().alias("said")).collect()
    )
    whole = float(times.frame["total_ns"].max() or 0.0)  # type: ignore[arg-type]
    found = {
        loops[region]: ns / said
        for region, ns, said in frame.iter_rows()
        if said > 0 and max(ns, said) > DOUBTFUL / 100 * whole
    }
    loop = max(found, key=lambda one: abs(log(max(found[one], 1e-9))), default=None)
    return {} if loop is None else {"stretched": found[loop], "stretched_in": names.get(loop, "a loop")}


def _busy(trace: Trace, kernel: Kernel) -> float:
    """The share of the launches that had to wait for a processor; all of them where others were there all the time, as
    short launches slip through between them and still find their caches."""
    launches = trace.kernel_launches(kernel.id)
    if kernel.clock.is_simulated:  # how busy this machine is does not change what another one executes
        return 0.0
    if float(trace.meta.get("switched_per_s") or 0.0) > CROWDED:
        return 1.0
    return sum(not undisturbed(launch) for launch in launches) / len(launches) if launches else 0.0


def _drift(times: Times, roots: list[int], works: dict[int, list[int]]) -> float:
    """The largest difference of a region's share between the quickest quarter of the launches and all of them, each
    work as much of both; nothing is known of it, and intervals are wide, when there are few."""
    whole = times.launches.filter(pl.col("region").is_in(roots)).group_by("launch").agg(pl.col("ns").sum())
    lasted = dict(whole.iter_rows())
    quick: dict[int, float] = {}  # launch -> launches that it stands for
    everything: dict[int, float] = {}
    for mine in works.values():
        if len(mine) >= QUICK:
            few = sorted(mine, key=lambda launch: lasted.get(launch, 0.0))[: len(mine) // 4]
            quick |= dict.fromkeys(few, len(mine) / len(few))
            everything |= dict.fromkeys(mine, 1.0)
    shares = [_shares(times, roots, launches) for launches in (quick, everything)]
    return max((abs(shares[0].get(key, 0.0) - share) for key, share in shares[1].items()), default=0.0)


def _shares(times: Times, roots: list[int], launches: dict[int, float]) -> dict[int, float]:
    mine = times.launches.filter(pl.col("launch").is_in(list(launches)))
    stands = pl.col("launch").replace_strict(launches, return_dtype=pl.Float64)
    summed = mine.group_by("region").agg((pl.col("ns") * stands).sum())
    sums: dict[int, float] = dict(summed.iter_rows())
    whole = sum(sums.get(root, 0.0) for root in roots)
    return {region: ns / whole for region, ns in sums.items()} if whole else {}


def _outliers(trace: Trace, roots: list[int]) -> int:
    """Programs that took more than four times the median of their launch."""
    lasted = (pl.col("stop_ns") - pl.col("start_ns")).alias("ns")
    mine = trace.scan().filter(pl.col("region").is_in(roots) & (pl.col("kind") == "region"))
    middle = pl.col("ns").median().over("launch")
    frame = mine.select("launch", lasted).with_columns(middle.alias("middle")).collect()
    return int((frame["ns"] > 4 * frame["middle"]).sum())
