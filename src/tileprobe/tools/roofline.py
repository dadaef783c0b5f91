"""roofline: what each region computes for each byte it asks for, how fast, and how near to what the machine can do.

On a CPU operations and bytes are counted in the IR, stage by stage, and a region's rate is that of the core it runs on;
a simulated GPU counts what it issued and what came from DRAM, and the rate is the whole chip's. Bytes of a CPU are
those that loads and stores ask for. What masks keep out counts with neither where the trace says how much that is. A
region whose data is in a cache may lie above the roof of the memory. Rates come from recorded time, so their intervals
are those of the times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tileprobe.ir.accesses import COMPUTING, ELEMENTS, Access
from tileprobe.ir.amounts import Roofs
from tileprobe.tools.memory import told
from tileprobe.tools.plan import Plan
from tileprobe.tools.regions import Regions, region_tree
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.tools.times import Times, region_times
from tileprobe.trace import Kernel, Region, Trace

COLUMNS = [
    Column("name", "text", "region"),
    Column("flops", "number", "GFLOP"),
    Column("bytes", "number", "GB"),
    Column("intensity", "number", "FLOP/byte"),
    Column("rate", "number", "GFLOP/s"),
    Column("moved", "number", "GB/s"),
    Column("reached", "share", "of its roof"),
    Column("limit", "text", "roof"),
]
UNCOUNTED = (
    "what it computes as a whole is not known: parts without a probe of their own stand in conditions or in loops of "
    "which nobody knows how often they go round; --dense records each of them"
)
NO_DATA = (
    "operations and bytes are not in this trace: they are counted on the CPU and on timed simulated GPUs"
)
# What is counted
ALL = "of all elements, masked off or not"
UNMASKED = "without what masks keep out"
LANES = "FLOP of all lanes, bytes of the DRAM"
DRAM = ("dram_bytes_read", "dram_bytes_written")
COUNTERS = ("flops", "tensor_flops", *DRAM)
TENSOR = "tensor cores"  # in the names of their roofs
# What is quicker than multiply-adds of singles: products of bf16, of 8-bit floats and of bytes, which no roof here has
SINGLES, BEYOND = "f32 multiply-add", "f32 multiply-add (products of narrower types are quicker)"


PASSED = 1.1  # times the roof, which is measured, too


@dataclass(frozen=True)
class Point:
    """One region, or the whole kernel (`region` None): operations and bytes of all that ran, and the seconds of
    whatever executes them, one core or a chip."""

    region: int | None
    name: str
    flops: float
    bytes: float
    seconds: float
    tensor: float | None = None  # operations of tensor cores among them, where they are known

    @property
    def intensity(self) -> float | None:
        return self.flops / self.bytes if self.bytes else None

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.flops / self.seconds

    @property
    def moved(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds

    def nearest(self, roofs: Roofs) -> tuple[str, float] | None:
        """The roof that it is nearest to, and how much of it is reached: of what computes, or of the slowest level
        of memory that can bring so many bytes. What is quicker than the memory had its data in a cache."""
        known = sorted(roofs.bytes_per_s, key=lambda one: one[1])
        memory = next((one for one in known if self.moved <= one[1]), known[-1] if known else None)
        shares = self._computed(roofs)
        shares += [(memory[0], self.moved / memory[1])] if memory and self.bytes else []
        near = max(shares, key=lambda one: one[1], default=None)
        return (BEYOND, near[1]) if near and near[0] == SINGLES and near[1] > PASSED else near

    def _computed(self, roofs: Roofs) -> list[tuple[str, float]]:
        """Of each roof what is reached of it: of tensor cores by their operations, of others by the rest."""
        parts = [(list(roofs.flops_per_s), self.flops)]
        if self.tensor is not None:
            theirs = [one for one in roofs.flops_per_s if TENSOR in one[0]]
            others = [one for one in roofs.flops_per_s if TENSOR not in one[0]]
            if theirs and others:
                parts = [(theirs, self.tensor), (others, self.flops - self.tensor)]
        ables = [(max(part, key=lambda one: one[1], default=None), flops) for part, flops in parts]
        return [(able[0], flops / self.seconds / able[1]) for able, flops in ables if able and flops]


@dataclass(frozen=True)
class Roofline:
    points: tuple[Point, ...]  # the kernel first, then its regions, longest first
    roofs: Roofs | None
    unit: str  # whose rates they are: "core", "chip"
    counted: str  # of which elements operations and bytes are


def roofline(trace: Trace, kernel: Kernel, times: Times | None = None) -> Roofline | None:
    """None where operations and bytes are not known, or what is counted is no time."""
    if not kernel.clock.is_time:
        return None
    roofs = roofs_of(trace, kernel)
    points = _counted(trace, kernel)
    unit, counted = "chip", LANES
    if not points:
        found = told(trace, kernel)[1]
        points = _regions(trace, kernel, region_times(trace) if times is None else times, found)
        unit, counted = "core", UNMASKED if found else ALL
    return Roofline(tuple(points), roofs, roofs.unit if roofs else unit, counted) if points else None


def roofs_of(trace: Trace, kernel: Kernel) -> Roofs | None:
    """As the trace has them, which may come from anywhere."""
    known = trace.meta.get("roofs")
    found = known.get(kernel.target) if isinstance(known, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    flops, moved = (_named(found.get(name)) for name in ("flops_per_s", "bytes_per_s"))
    said = str(found.get("said", ""))
    return Roofs(str(found.get("unit", "")), flops, moved, said) if flops and moved else None


def _named(rows: Any) -> tuple[tuple[str, float], ...]:
    if not isinstance(rows, list | tuple):
        return ()
    pairs = [row for row in rows if isinstance(row, list | tuple) and len(row) == 2]
    return tuple((str(n), float(v)) for n, v in pairs if isinstance(v, int | float) and 0 < v < float("inf"))


def _counted(trace: Trace, kernel: Kernel) -> list[Point]:
    """The kernel as a machine counted it that counts operations: all launches that have such counters."""
    lasted = {x.id: x.duration_ns for x in trace.kernel_launches(kernel.id) if x.duration_ns}
    mine = pl.col("launch").is_in(list(lasted)) & pl.col("name").is_in(COUNTERS) & (pl.col("line") == 0)
    sums: dict[str, float] = {}
    launches: set[int] = set()
    for launch, name, value in trace.counters.filter(mine).select("launch", "name", "value").iter_rows():
        sums[name] = sums.get(name, 0.0) + value
        launches.add(launch)
    if "flops" not in sums:
        return []
    seconds = sum(lasted[launch] or 0.0 for launch in launches) / 1e9
    moved = sum(sums.get(name, 0.0) for name in DRAM)
    point = Point(None, kernel.name, sums["flops"], moved, seconds, sums.get("tensor_flops"))
    return [point] if seconds else []


def _regions(trace: Trace, kernel: Kernel, times: Times, accesses: list[Access]) -> list[Point]:
    """Regions by what is counted of one execution of each. The kernel is their sum, where all are known."""
    known = {r.id: r for r in trace.kernel_regions(kernel.id)}
    points: list[Point] = []
    whole, flops, moved, complete = 0.0, 0.0, 0.0, True
    for row in region_tree(trace, kernel, times).filter(pl.col("kind") != "partition").iter_rows(named=True):
        region = known[row["region"]]
        if row["depth"] == 0:
            whole += row["total_ns"] / 1e9
        if region.flops is None or region.bytes is None:
            complete = False
            continue
        done = row["count"] * region.flops * _computed(region, accesses)
        asked = row["count"] * region.bytes * _unmasked(region, accesses)
        flops, moved = flops + done, moved + asked
        if (region.flops or region.bytes) and row["self_ns"] > 0:
            name = f"rest of {region.name}" if region.kind == "kernel" else region.name
            points.append(Point(region.id, name, done, asked, row["self_ns"] / 1e9))
    points.sort(key=lambda one: -one.seconds)
    if complete and whole and (points or flops or moved):
        points.insert(0, Point(None, kernel.name, flops, moved, whole))
    return points


def _unmasked(region: Region, accesses: list[Access]) -> float:
    """The share of the bytes of a region's lines that masks let through; all where nobody looked."""
    lines = set(region.all_lines)
    mine = [one for one in accesses if one.line in lines and one.space != ELEMENTS]
    mine = [one for one in mine if one.get("lanes") and one.get("size")]
    whole = sum((one.get("lanes") or 0.0) * (one.get("size") or 0.0) for one in mine)
    return sum(one.asked or 0.0 for one in mine) / whole if whole else 1.0


def _computed(region: Region, accesses: list[Access]) -> float:
    """The share of its operations that are on elements which masks let through: of the stage called so, else of all on
    its lines; all where nobody looked."""
    lines = set(region.all_lines)
    mine = [one for one in accesses if one.space == ELEMENTS and one.line in lines and one.get("lanes")]
    mine = [one for one in mine if one.what == COMPUTING + region.kind] or mine
    whole = sum(one.get("lanes") or 0.0 for one in mine)
    return sum(one.get("active") or 0.0 for one in mine) / whole if whole else 1.0


class RooflineTool:
    name = "roofline"

    def plan(self) -> Plan:
        return Regions().plan() | Plan(accesses=True)

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        times = region_times(trace)
        for kernel in told_apart(trace.kernels):
            found = roofline(trace, kernel, times)
            if found is None:
                continue
            rows = [_row(point, found.roofs) for point in found.points]
            frame = pl.DataFrame(rows, schema=_SCHEMA)
            title = f"{kernel.name}: rates of a {found.unit}, {found.counted}"
            result.tables.append(Table(title, frame, COLUMNS, kernel.id))
            result.findings += _said(kernel, found)
            if found.points[0].region is not None:
                result.findings.append(Finding(f"{kernel.name}: {UNCOUNTED}", kernel=kernel.id))
        if not result.tables:
            result.findings.append(Finding(NO_DATA, level="warning"))
        return result


_SCHEMA = {
    "name": pl.String, "flops": pl.Float64, "bytes": pl.Float64, "intensity": pl.Float64, "rate": pl.Float64,
    "moved": pl.Float64, "reached": pl.Float64, "limit": pl.String,
}  # fmt: skip


def _row(point: Point, roofs: Roofs | None) -> dict[str, Any]:
    near = point.nearest(roofs) if roofs else None
    return {
        "name": point.name,
        "flops": point.flops / 1e9,
        "bytes": point.bytes / 1e9,
        "intensity": point.intensity,
        "rate": point.rate / 1e9,
        "moved": point.moved / 1e9,
        "reached": near[1] if near else None,
        "limit": near[0] if near else "",
    }


def _said(kernel: Kernel, found: Roofline) -> list[Finding]:
    point = found.points[0]
    each = f" ({point.intensity:.3g} FLOP for each byte)" if point.intensity is not None else ""
    text = (
        f"{point.name}: {point.rate / 1e9:.3g} GFLOP/s and {point.moved / 1e9:.3g} GB/s a {found.unit}{each}"
    )
    near = point.nearest(found.roofs) if found.roofs else None
    if near and found.roofs:
        text += f"; {100 * near[1]:.0f} % of what its {near[0]} can ({found.roofs.said})"
    return [Finding(text, kernel=kernel.id, data={"region": point.region})]
