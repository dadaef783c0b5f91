"""Two traces side by side, region by region, with the noise of each: what changed, and what may be chance.

Kernels and regions are matched by structure and code (`tools/matching.py`). A region's time in one launch, over the
programs of that launch, is one sample. Launches are held against launches of the same work (the same grid and
arguments) of the other trace; the difference of the medians is held against the noise of the samples and what is in
doubt of the records' cost; with fewer than three launches on a side there is no telling, and the result says so.
Where launches recorded some of their programs, and these differ, most launches may not have seen the slow ones: then
means are compared, whose noise is wider.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from tileprobe.tools.accounting import interrupted
from tileprobe.tools.figures import BATCHES, DRIFTS
from tileprobe.tools.matching import Matched, code_of, match_kernels, match_regions, nameless
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import labels
from tileprobe.tools.streams import partitions
from tileprobe.tools.times import Times, cost_doubt, region_times
from tileprobe.trace import Kernel, Region, Trace
from tileprobe.trace.cold import cold_launches
from tileprobe.trace.works import with_works

ENOUGH = 3  # launches on each side
MANY = 10  # launches, from which on the error of a median can be estimated from their spread
SIGMAS = 3.0  # standard errors, beyond which a difference is no longer called noise
UNEVEN = 1.05  # the mean of launches by their median, above which sampled programs are not alike
NAMED = 3  # regions without a partner that are named

COLUMNS = [
    Column("name", "tree", "region"),
    Column("a_ns", "ns", "A", estimate="estimate"),
    Column("b_ns", "ns", "B", estimate="estimate"),
    Column("change", "change", "change"),
    Column("verdict", "text", ""),
    Column("noise", "noise", "noise"),
]

WorkKey = tuple[tuple[int, ...], str]  # grid and arguments
EVERYTHING: WorkKey = ((), "")
Samples = dict[WorkKey, np.ndarray]  # by work, a number a launch


def compare(a: Trace, b: Trace) -> Result:
    """Every kernel that both traces have is a table, whatever its specialisation."""
    result = Result("compare")
    left, right = _Side(a), _Side(b)
    kernels = match_kernels(left.trace, right.trace)
    if any(mine.clock.is_time != other.clock.is_time for mine, other in kernels.pairs):
        result.findings.append(
            Finding("one side counts time, the other instructions: they do not compare", "warning")
        )
    for mine, other in kernels.pairs:
        _compare_kernels(result, left, mine, right, other)
    for side, alone, letter in ((left, kernels.only_a, "A"), (right, kernels.only_b, "B")):
        if alone:
            names = ", ".join(sorted(side.labels[kernel.id] for kernel in alone))
            result.findings.append(Finding(f"only in {letter}: {names}"))
    return result


class _Side:
    """One of the two traces, and what is read off it once."""

    def __init__(self, trace: Trace) -> None:
        self.trace = with_works(trace)
        self.times: Times = region_times(self.trace)
        self.labels = labels(self.trace.kernels)
        self.cold = cold_launches(self.trace)
        self.works = {work.id: (work.grid, work.arguments) for work in self.trace.works}
        self.table = self.times.launches.partition_by("partition", "region", as_dict=True)

    def launches(self, kernel: Kernel) -> dict[WorkKey, list[int]]:
        found: dict[WorkKey, list[int]] = {}
        for launch in self.trace.launches:
            if launch.kernel == kernel.id and launch.probed and launch.id not in self.cold:
                found.setdefault(self.works[launch.work], []).append(launch.id)
        return found

    def ran(self, kernel: Kernel) -> dict[WorkKey, int]:
        found: dict[WorkKey, int] = {}
        for work in self.trace.works:
            if work.kernel == kernel.id:
                found[work.grid, work.arguments] = found.get((work.grid, work.arguments), 0) + work.ran
        return found

    def sampled(self, launches: Iterable[int]) -> bool:
        """Whether one of the launches recorded some of its programs only."""
        wanted = set(launches)
        how = (launch.sampling for launch in self.trace.launches if launch.id in wanted)
        return any(
            one.get("chosen") is not None or one.get("programs", {}).get("stride", 1) > 1 for one in how
        )

    def streams(self, kernel: Kernel, partition: int) -> dict[int, float]:
        """How many programs, or streams of them, each launch had in a partition."""
        roots = [r.id for r in self.trace.kernel_regions(kernel.id) if r.parent is None]
        found: dict[int, float] = {}
        for root in roots:
            frame = self.table.get((partition, root))
            for launch, count in frame.select("launch", "count").iter_rows() if frame is not None else ():
                found[launch] = max(found.get(launch, 0.0), count)
        return found


@dataclass
class _Pair:
    """Two kernels that are the same, and the works by which they are compared."""

    left: _Side
    a: Kernel
    right: _Side
    b: Kernel

    def __post_init__(self) -> None:
        self.runs_a: dict[WorkKey, list[int]] = self.left.launches(self.a)
        self.runs_b: dict[WorkKey, list[int]] = self.right.launches(self.b)
        common = [work for work in self.runs_a if work in self.runs_b]
        self.same_work = bool(common)
        if not common:  # nothing to be held against itself: all launches together
            common = [EVERYTHING]
            self.runs_a = {EVERYTHING: [n for runs in self.runs_a.values() for n in runs]}
            self.runs_b = {EVERYTHING: [n for runs in self.runs_b.values() for n in runs]}
        enough = [w for w in common if min(len(self.runs_a[w]), len(self.runs_b[w])) >= ENOUGH]
        self.works = enough or common
        ran_a, ran_b = self.left.ran(self.a), self.right.ran(self.b)
        counts = [ran_a.get(w, 0) + ran_b.get(w, 0) or 1 for w in self.works]
        self.shares = [count / sum(counts) for count in counts]
        self.uneven = self._uneven(self.left, self.runs_a, self.a) or self._uneven(
            self.right, self.runs_b, self.b
        )

    def _uneven(self, side: _Side, runs: dict[WorkKey, list[int]], kernel: Kernel) -> bool:
        """Whether launches of a side are samples of programs that differ."""
        if not side.sampled(n for work in self.works for n in runs[work]):
            return False
        root = next(r.id for r in side.trace.kernel_regions(kernel.id) if r.parent is None)
        for partition in range(len(partitions(side.trace, kernel))):
            found = self.samples(side, runs, (partition, root), side.streams(kernel, partition))
            if any(float(np.mean(x)) > UNEVEN * float(np.median(x)) for x in found.values() if len(x)):
                return True
        return False

    def samples(
        self, side: _Side, runs: dict[WorkKey, list[int]], key: tuple[int, int], streams: dict
    ) -> Samples:
        """A region's time in a program. A launch in which it did not run took no time there."""
        frame = side.table.get(key)
        times = dict(frame.select("launch", "ns").iter_rows()) if frame is not None else {}
        return {
            work: np.array([times.get(n, 0.0) / (streams.get(n) or 1.0) for n in runs[work]])
            for work in self.works
        }


def _compare_kernels(result: Result, left: _Side, a: Kernel, right: _Side, b: Kernel) -> None:
    pair = _Pair(left, a, right, b)
    regions = match_regions(left.trace, a, right.trace, b)
    rows: list[dict] = []
    parts_a, parts_b = partitions(left.trace, a), partitions(right.trace, b)
    for number, part in enumerate(parts_b):
        names = [p.name for p in parts_a]
        if part.name in names:
            rows += _rows(pair, regions, names.index(part.name), number, part.name)
    title = right.labels[b.id]
    if rows:
        result.tables.append(Table(title, pl.DataFrame(rows, infer_schema_length=None), COLUMNS, b.id))
        result.findings += _verdicts(title, rows)
    result.findings += _remarks(title, pair, regions)


def _rows(pair: _Pair, regions: Matched[Region], part_a: int, part_b: int, name: str) -> list[dict]:
    streams_a, streams_b = pair.left.streams(pair.a, part_a), pair.right.streams(pair.b, part_b)
    depths: dict[int, int] = {}
    rows: list[dict] = []
    for mine, other in regions.pairs:
        keys = (part_a, mine.id), (part_b, other.id)
        if keys[0] not in pair.left.table or keys[1] not in pair.right.table:
            continue
        above = other.parent
        parents = {r.id: r.parent for r in pair.right.trace.regions}
        while above is not None and above not in depths:
            above = parents.get(above)
        depths[other.id] = 0 if above is None else depths[above] + 1
        a = pair.samples(pair.left, pair.runs_a, keys[0], streams_a)
        b = pair.samples(pair.right, pair.runs_b, keys[1], streams_b)
        doubts = (
            _cost_doubt_ns(pair.a, pair.left.table[keys[0]], streams_a),
            _cost_doubt_ns(pair.b, pair.right.table[keys[1]], streams_b),
        )
        label = f"{name}: {other.name}" if name and not depths[other.id] else other.name
        frames = [pair.left.table[keys[0]], pair.right.table[keys[1]]]
        rows.append(
            {
                "name": label,
                "a_name": mine.name,
                "depth": depths[other.id],
                **_figures(a, b, pair, doubts),
                "estimate": any(bool(frame["estimate"].any()) for frame in frames),
            }
        )
    return rows


def _cost_doubt_ns(kernel: Kernel, frame: pl.DataFrame, streams: dict[int, float]) -> float:
    """By how much the time of a region in a program may be off in all launches of a run alike: each run learns anew
    what a record costs, and takes it out."""
    took = cost_doubt(kernel).learnt * float(frame["probes_ns"].sum())
    return took / (sum(streams.get(n, 0.0) for n in frame["launch"]) or 1.0)


def _figures(a: Samples, b: Samples, pair: _Pair, doubts: tuple[float, float]) -> dict:
    middle = np.mean if pair.uneven else np.median
    before = sum(share * float(middle(a[work])) for work, share in zip(pair.works, pair.shares))
    after = sum(share * float(middle(b[work])) for work, share in zip(pair.works, pair.shares))
    change = after / before - 1.0 if before else 0.0
    spreads = [_spread_ns(a[work], b[work], pair.uneven) for work in pair.works]
    known = [share * spread for share, spread in zip(pair.shares, spreads) if spread is not None]
    spread = float(np.hypot.reduce([*known, *doubts]))
    noise = spread / before if before and len(known) == len(spreads) else None
    return {
        "a_ns": before,
        "b_ns": after,
        "change": change,
        "noise": noise,
        "verdict": _verdict(change, noise),
        "figure": "mean" if pair.uneven else "median",
        "launches_a": sum(len(a[work]) for work in pair.works),
        "launches_b": sum(len(b[work]) for work in pair.works),
    }


def _spread_ns(a: np.ndarray, b: np.ndarray, uneven: bool) -> float | None:
    """The change that may be chance; None if unknown. With few launches it is the range that either side covers by
    itself, with many it is SIGMAS standard errors of the difference of the medians, or of the means."""
    if min(len(a), len(b)) < ENOUGH:
        return None
    if min(len(a), len(b)) < MANY:
        return float(max(np.ptp(a), np.ptp(b)))
    if uneven:
        return float(SIGMAS * np.hypot(*(x.std(ddof=1) / np.sqrt(len(x)) for x in (a, b))))
    return float(SIGMAS * np.hypot(_error_of_median(a), _error_of_median(b)))


def _error_of_median(samples: np.ndarray) -> float:
    """From the spread of launches; from that of batches of neighbours where they differ by more than independent ones
    would, because the machine changed its pace."""
    error = 1.4826 * np.median(np.abs(samples - np.median(samples))) * np.sqrt(np.pi / 2 / len(samples))
    if len(samples) < 2 * BATCHES:
        return float(error)
    batches = np.median(samples[: len(samples) // BATCHES * BATCHES].reshape(BATCHES, -1), axis=1)
    slow = batches.std(ddof=1) / np.sqrt(BATCHES)
    return float(slow if slow**2 > DRIFTS * error**2 else error)


def _verdict(change: float, noise: float | None) -> str:
    if noise is None:
        return "too few launches"
    if abs(change) <= noise:
        return "within noise"
    return "slower" if change > 0 else "faster"


def _verdicts(name: str, rows: list[dict]) -> list[Finding]:
    whole = max((row for row in rows if row["depth"] == rows[0]["depth"]), key=lambda row: row["a_ns"])
    if whole["noise"] is None:
        text = f"{name}: too few launches to tell a change from noise; {ENOUGH} on each side are needed"
        return [Finding(text, "warning", {"launches": [whole["launches_a"], whole["launches_b"]]})]
    data = {"change": whole["change"], "noise": whole["noise"]}
    if whole["verdict"] == "within noise":
        return [Finding(f"{name}: no change beyond the noise of {100 * whole['noise']:.1f} %", data=data)]
    change, noise = abs(100 * whole["change"]), 100 * whole["noise"]
    return [Finding(f"{name}: B is {change:.1f} % {whole['verdict']} than A, noise {noise:.1f} %", data=data)]


def _remarks(name: str, pair: _Pair, regions: Matched[Region]) -> list[Finding]:
    """What a reader must know of the two sides: what differs about them besides their times."""
    found: list[Finding] = []
    code = code_of if pair.a.name == pair.b.name else nameless
    same_code = code(pair.a.source) == code(pair.b.source)
    if pair.a.name != pair.b.name:
        same = "code" if same_code else "signature and regions"
        found.append(Finding(f"{name}: has the {same} of {pair.a.name} in A, and is taken for it"))
    if pair.a.signature != pair.b.signature and pair.a.signature and pair.b.signature:
        found.append(Finding(f"{name}: the signatures differ: A {pair.a.signature}; B {pair.b.signature}"))
    if pair.a.target != pair.b.target:
        found.append(Finding(f"{name}: A ran on {pair.a.target}, B on {pair.b.target}", "warning"))
    if not same_code:
        found.append(Finding(f"{name}: the code differs; regions that did not change are matched first"))
    elif pair.a.ir and pair.a.signature == pair.b.signature and pair.same_work:
        found.append(
            Finding(
                f"{name}: code and work are the same in both: a change is the machine's, or that of the data"
            )
        )
    if pair.uneven:
        found.append(
            Finding(
                f"{name}: programs differ and some of each launch were recorded: means of launches are compared, which "
                "are less sure than medians (--programs all records every program)"
            )
        )
    if not pair.same_work and pair.runs_a and pair.runs_b:
        found.append(
            Finding(
                f"{name}: no grid with the same arguments is in both: different work is compared", "warning"
            )
        )
    for letter, side, kernel in (("A", pair.left, pair.a), ("B", pair.right, pair.b)):
        disturbed = interrupted(side.trace, kernel, side.times)
        if not disturbed.trusted:
            found.append(Finding(f"{name}: in {letter} {disturbed.text}", "warning"))
    for letter, alone in (("A", regions.only_a), ("B", regions.only_b)):
        if alone:
            names = ", ".join(region.name for region in alone[:NAMED]) + (
                " ..." if len(alone) > NAMED else ""
            )
            found.append(Finding(f"{name}: only in {letter}: {names}", data={"count": len(alone)}))
    return found
