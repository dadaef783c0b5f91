"""regions: where the time of a kernel goes, as a tree: count, total, self, mean, p50, p95, share, source.

Totals and counts are scaled to all launches, programs and iterations that ran; what was recorded of them, and how far
off the total may be, stand beside. Streams of one partition are put together. A kernel with several partitions has
one tree for each, under its name.
"""

from __future__ import annotations

from math import isfinite

import polars as pl

from tileprobe.tools.cold_start import cold_start
from tileprobe.tools.doubt import doubtful_ns
from tileprobe.tools.headline import headline, short_regions
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Column, Result, Table
from tileprobe.tools.signatures import labels
from tileprobe.tools.streams import Partition, partitions
from tileprobe.tools.times import Times, how_sure, region_times
from tileprobe.trace import Kernel, Region, Trace

COLUMNS = [
    Column("name", "tree", "region"),
    Column("share", "share", ""),
    Column("total_ns", "ns", "total", estimate="estimate"),
    Column("total_ns", "within", "", low="low_ns", high="high_ns"),
    Column("self_ns", "ns", "self", estimate="estimate"),
    Column("count", "count", "count", estimate="estimate"),
    Column("mean_ns", "ns", "mean"),
    Column("p50_ns", "ns", "p50"),
    Column("p95_ns", "ns", "p95"),
    Column("source", "text", "source"),
]
_MOVED = Column("moved", "percent", "moved")  # shown where there is some


class Regions:
    """The default: kernel, loops, iterations and the stages that cost."""

    name = "regions"

    def plan(self) -> Plan:
        return Plan(loops=True, iterations=True, kinds=("all",))

    def read(self, trace: Trace, times: Times | None = None) -> Result:
        result = Result(self.name)
        times = region_times(trace) if times is None else times
        names = labels(trace.kernels)
        for kernel in trace.kernels:
            frame = region_tree(trace, kernel, times)
            if not frame.height:
                continue
            columns = COLUMNS if frame["moved"].is_null().all() else [*COLUMNS[:2], _MOVED, *COLUMNS[2:]]
            result.tables.append(Table(names[kernel.id], frame, columns, kernel.id))
            result.findings += headline(trace, kernel, frame, names[kernel.id])
            result.findings += cold_start(trace, kernel, times, names[kernel.id])
            result.findings += short_regions(kernel, frame, names[kernel.id])
        return result


def region_tree(trace: Trace, kernel: Kernel, times: Times | None = None) -> pl.DataFrame:
    """One row a region of the kernel, parents before children; regions that never ran are left out. With several
    partitions the regions of each follow a row of kind `partition`, which is their sum."""
    times = region_times(trace) if times is None else times
    if kernel.id not in times.trees:
        times.trees[kernel.id] = _tree(trace, kernel, times)
    return times.trees[kernel.id]


def _tree(trace: Trace, kernel: Kernel, times: Times) -> pl.DataFrame:
    measured: dict[int, dict[int, dict]] = {}
    for row in times.frame.iter_rows(named=True):
        measured.setdefault(row["partition"], {})[row["region"]] = row
    regions = trace.kernel_regions(kernel.id)
    parts = partitions(trace, kernel)
    rows: list[dict] = []
    for number, partition in enumerate(parts):
        mine = _rows(regions, measured.get(number, {}), depth=int(len(parts) > 1))
        if mine and len(parts) > 1:
            rows.append(_partition_row(partition, mine))
        rows += mine
    whole = _whole(rows)
    for row in rows:
        row["share"] = row["total_ns"] / whole if whole else 0.0
    _add_intervals(trace, kernel, times, rows, int(len(parts) > 1))
    return pl.DataFrame(rows, schema=SCHEMA)


def _add_intervals(trace: Trace, kernel: Kernel, times: Times, rows: list[dict], top: int) -> None:
    mine = [row for row in rows if row["kind"] != "partition"]
    keys = [(row["partition"], row["region"]) for row in mine]
    sure = how_sure(trace, kernel, times, keys, [row["depth"] == top for row in mine])
    doubtful = doubtful_ns(trace, kernel, times)
    found = zip(mine, sure.total_ns.tolist(), sure.share.tolist(), sure.share_noise.tolist())
    for row, error, of_whole, noise in found:
        known = isfinite(error)
        row["low_ns"] = max(0.0, row["total_ns"] - error - doubtful) if known else None
        row["high_ns"] = row["total_ns"] + error if known else None
        row["share_error"] = of_whole if isfinite(of_whole) else None
        row["share_noise"] = noise if isfinite(noise) else None
        row["basis"] = sure.basis


def _rows(regions: list[Region], measured: dict[int, dict], depth: int) -> list[dict]:
    """The rows of one partition; a region hangs from the nearest region around it that ran."""
    parents = {region.id: region.parent for region in regions}
    rows: dict[int, dict] = {}
    for region in regions:
        if region.id not in measured:
            continue
        around = region.parent
        while around is not None and around not in rows:
            around = parents.get(around)
        time = measured[region.id]
        if around is not None:  # what is scaled up does not outgrow what it lies in, which is measured
            if time["estimate"] and time["total_ns"] > rows[around]["total_ns"] > 0:
                time = time | {"total_ns": rows[around]["total_ns"]}
            rows[around]["self_ns"] = max(0.0, rows[around]["self_ns"] - time["total_ns"])
        rows[region.id] = {
            "name": region.name,
            "kind": region.kind,
            "source": region.source,
            "depth": depth if around is None else rows[around]["depth"] + 1,
            "self_ns": time["total_ns"],
            "recorded": min(1.0, time["recorded_ns"] / time["total_ns"]) if time["total_ns"] else 1.0,
            **{key: time[key] for key in _MEASURED},
            "count": round(time["count"]),
            "estimate": region.estimate or time["estimate"],
            "moved": region.moved or None,
        }
    return list(rows.values())


def _partition_row(partition: Partition, rows: list[dict]) -> dict:
    several = len(partition.streams)
    name = f"{partition.name} x {several}" if several > 1 else partition.name
    total = sum(row["total_ns"] for row in rows if row["depth"] == 1)
    return {"name": name, "kind": "partition", "source": "", "depth": 0, "total_ns": total, "estimate": False}


def _whole(rows: list[dict]) -> float:
    """The time of all that hangs from nothing."""
    return sum(row["total_ns"] for row in rows if row["depth"] == 0)


def whole_ns(frame: pl.DataFrame) -> float:
    """The time of a tree."""
    return float(frame.filter(pl.col("depth") == 0)["total_ns"].sum())


_MEASURED = (
    *("partition", "region", "total_ns", "recorded_ns", "recorded_count", "mean_ns", "p50_ns", "p95_ns"),
    *("taken_ns", "interrupted"),
)
SCHEMA = {
    "partition": pl.Int64,
    "region": pl.UInt32,
    "name": pl.String,
    "kind": pl.String,
    "source": pl.String,
    "depth": pl.Int32,
    "count": pl.Int64,
    "recorded_count": pl.Int64,
    "total_ns": pl.Float64,
    "low_ns": pl.Float64,  # 95 % interval of the total; null where nothing can be said
    "high_ns": pl.Float64,
    "recorded_ns": pl.Float64,
    "recorded": pl.Float64,  # the share of the total that was recorded
    "self_ns": pl.Float64,
    "mean_ns": pl.Float64,
    "p50_ns": pl.Float64,
    "p95_ns": pl.Float64,
    "share": pl.Float64,
    "share_error": pl.Float64,  # half its 95 % interval
    "share_noise": pl.Float64,  # the same without the doubt about what a record costs, which is in every run alike
    "estimate": pl.Boolean,  # stands for executions that were not recorded, or is a share of a fused stage
    "moved": pl.Float64,  # the share of its instructions that the compiler put outside of its records; null: none
    "taken_ns": pl.Float64,  # by the operating system; not in the total
    "interrupted": pl.Int64,  # intervals of which it took something
    "basis": pl.String,  # what the interval is from: one of times.BASES, or "" where there is none
}
