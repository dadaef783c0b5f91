"""regions: where the time of a kernel goes, as a tree: count, total, self, mean, p50, p95, share, source."""

from __future__ import annotations

import polars as pl

from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.trace import Kernel, Trace

DURATION = pl.col("stop_ns") - pl.col("start_ns")

COLUMNS = [
    Column("name", "tree", "region"),
    Column("share", "share", ""),
    Column("total_ns", "ns", "total"),
    Column("count", "count", "count"),
    Column("mean_ns", "ns", "mean"),
    Column("self_ns", "ns", "self"),
    Column("p50_ns", "ns", "p50"),
    Column("p95_ns", "ns", "p95"),
    Column("source", "text", "source"),
]


class Regions:
    """The default: kernel, loops, iterations and the stages that cost."""

    name = "regions"

    def plan(self) -> Plan:
        return Plan(loops=True, iterations=True, kinds=("all",))

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        times = region_times(trace)
        for kernel in trace.kernels:
            frame = region_tree(trace, kernel, times)
            if not frame.height:
                continue
            result.tables.append(Table(kernel.name, frame, COLUMNS, kernel.id))
            result.findings += _findings(kernel, frame)
        return result


def region_times(trace: Trace) -> pl.DataFrame:
    """Count, total and quantiles of each region's intervals, in one pass over the trace. The time of an
    asynchronous operation is what the program waited for it."""
    timed = trace.scan().filter(pl.col("kind").is_in(["region", "wait", "mark", "value"]))
    grouped = timed.group_by("region").agg(
        pl.len().alias("count"),
        DURATION.sum().alias("total_ns"),
        DURATION.mean().alias("mean_ns"),
        DURATION.quantile(0.5).alias("p50_ns"),
        DURATION.quantile(0.95).alias("p95_ns"),
    )
    return grouped.collect(engine="streaming")


def region_tree(trace: Trace, kernel: Kernel, times: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row a region of the kernel, parents before children; regions that never ran are left out."""
    times = region_times(trace) if times is None else times
    measured = {row["region"]: row for row in times.iter_rows(named=True)}
    regions = [r for r in trace.kernel_regions(kernel.id) if r.id in measured]
    known = {r.id for r in regions}
    inside = dict.fromkeys(known, 0.0)
    for region in regions:
        if region.parent in inside:
            inside[region.parent] += measured[region.id]["total_ns"]
    whole = sum(measured[r.id]["total_ns"] for r in regions if r.parent not in known)
    rows = []
    for region in regions:
        time = measured[region.id]
        rows.append(
            {
                "region": region.id,
                "name": region.name,
                "kind": region.kind,
                "source": region.source,
                "depth": region.depth,
                "count": time["count"],
                "total_ns": time["total_ns"],
                "self_ns": max(0.0, time["total_ns"] - inside[region.id]),
                "mean_ns": time["mean_ns"],
                "p50_ns": time["p50_ns"],
                "p95_ns": time["p95_ns"],
                "share": time["total_ns"] / whole if whole else 0.0,
                "estimate": region.estimate,
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


SCHEMA = {
    "region": pl.UInt32,
    "name": pl.String,
    "kind": pl.String,
    "source": pl.String,
    "depth": pl.Int32,
    "count": pl.Int64,
    "total_ns": pl.Float64,
    "self_ns": pl.Float64,
    "mean_ns": pl.Float64,
    "p50_ns": pl.Float64,
    "p95_ns": pl.Float64,
    "share": pl.Float64,
    "estimate": pl.Boolean,
}


def _findings(kernel: Kernel, frame: pl.DataFrame) -> list[Finding]:
    whole = frame["total_ns"][0]
    if not whole:
        return []
    found = []
    leaves = frame.filter(~pl.col("kind").is_in(["kernel", "loop", "iteration", "scope"]))
    if leaves.height:
        top = leaves.sort("self_ns", descending=True).row(0, named=True)
        share = top["self_ns"] / whole
        text = f"{kernel.name}: {100 * share:.0f} % of the time is in {top['name']}"
        found.append(Finding(text, data={"region": top["region"], "share": share}))
    cost = float(kernel.calibration.get("cost_ticks", 0.0)) * 1e9 / kernel.clock.hz
    short = (
        leaves.filter((pl.col("p50_ns") < 4 * cost) & (pl.col("total_ns") > 0)) if cost else leaves.clear()
    )
    if short.height:
        names = ", ".join(short["name"].to_list()[:3]) + (" ..." if short.height > 3 else "")
        text = f"{names}: shorter than four records ({4 * cost:.0f} ns), so read the times as rough"
        found.append(Finding(text, "warning", {"regions": short["region"].to_list()}))
    return found
