"""iterations: how the time of a loop's iterations develops: warm-up, steady state, stragglers."""

from __future__ import annotations

import polars as pl

from tileprobe.tools.figures import LASTED, STANDS
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.tools.streams import Partition, partitions
from tileprobe.trace import Kernel, Region, Trace
from tileprobe.trace.works import left_out

LOOPS = [
    Column("name", "text", "loop"),
    Column("iterations", "count", "iterations"),
    Column("recorded", "count", "recorded"),
    Column("first_ns", "ns", "first"),
    Column("steady_ns", "ns", "steady"),
    Column("last_ns", "ns", "last"),
    Column("p95_ns", "ns", "p95"),
    Column("worst", "count", "slowest"),
]
STEPS = [
    Column("name", "text", "loop"),
    Column("iteration", "text", "iterations"),
    Column("share", "share", ""),
    Column("mean_ns", "ns", "mean"),
    Column("p95_ns", "ns", "p95"),
    Column("count", "count", "recorded"),
]
ROWS = 12  # of the second table, a loop


class Iterations:
    name = "iterations"

    def plan(self) -> Plan:
        return Plan(loops=True, iterations=True)

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        gone = left_out(trace)
        for kernel in told_apart(trace.kernels):
            loops = [r for r in trace.kernel_regions(kernel.id) if r.kind == "iteration"]
            summaries, steps = [], []
            for region, partition in [(r, p) for p in partitions(trace, kernel) for r in loops]:
                frame = iteration_times(trace, region, partition, gone=gone)
                if not frame.height:
                    continue
                name = _loop_name(trace, region, partition)
                summaries.append(_summary(name, frame, trips(trace, region)))
                steps.append(_binned(name, frame))
                result.findings += _findings(kernel, name, frame)
            if summaries:
                result.tables.append(
                    Table(f"{kernel.name}: loops", pl.DataFrame(summaries), LOOPS, kernel.id)
                )
                result.tables.append(
                    Table(f"{kernel.name}: by iteration", pl.concat(steps), STEPS, kernel.id)
                )
        if not result.tables:
            result.findings.append(
                Finding("no iterations were recorded: the kernels have no loops, or none were probed")
            )
        return result


def iteration_times(
    trace: Trace, region: Region, partition: Partition | None = None, *, gone: set[int] | None = None
) -> pl.DataFrame:
    """For each iteration number of a loop that was recorded: how often, mean, median, p95 over programs, launches and
    runs, of all streams or of one partition's. `gone` is `left_out(trace)`, for those who know it."""
    mine = trace.scan().filter((pl.col("region") == region.id) & (pl.col("kind") == "region"))
    gone = left_out(trace) if gone is None else gone
    mine = mine.filter(~pl.col("launch").is_in(list(gone))) if gone else mine
    if partition is not None and partition.name:
        mine = mine.filter(pl.col("stream").is_in(partition.streams))
    grouped = mine.group_by("iteration").agg(
        pl.len().alias("count"),
        LASTED.mean().alias("mean_ns"),
        LASTED.median().alias("p50_ns"),
        LASTED.quantile(0.95).alias("p95_ns"),
    )
    return grouped.sort("iteration").collect(engine="streaming")


def _loop_name(trace: Trace, region: Region, partition: Partition) -> str:
    names = {r.id: r.name for r in trace.regions}
    name = names.get(region.parent, region.name) if region.parent is not None else region.name
    return f"{partition.name}: {name}" if partition.name else name


def trips(trace: Trace, region: Region) -> float | None:
    """How many iterations a run of the loop has in the mean, recorded or not; None where the loop is not measured."""
    pair = trace.scan().filter(
        pl.col("region").is_in([region.id, region.parent]) & (pl.col("kind") == "region")
    )
    counts = dict(pair.group_by("region").agg(STANDS.sum().alias("count")).collect().iter_rows())
    runs = counts.get(region.parent)
    return counts.get(region.id, 0.0) / runs if runs else None


def _summary(name: str, frame: pl.DataFrame, count: float | None) -> dict:
    worst = frame.sort("mean_ns", descending=True).row(0, named=True)
    return {
        "name": name,
        "iterations": frame.height if count is None else max(round(count), 1),
        "recorded": frame.height,
        "first_ns": frame["mean_ns"][0],
        "steady_ns": frame["p50_ns"].median(),
        "last_ns": frame["mean_ns"][-1],
        "p95_ns": frame["p95_ns"].max(),
        "worst": worst["iteration"],
    }


def _binned(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """At most ROWS rows: neighbouring iterations are put together."""
    width = -(-frame.height // ROWS)
    rank = pl.int_range(pl.len()) // width
    bins = frame.group_by(rank.alias("bin")).agg(
        pl.col("iteration").min().alias("first"),
        pl.col("iteration").max().alias("last"),
        ((pl.col("mean_ns") * pl.col("count")).sum() / pl.col("count").sum()).alias("mean_ns"),
        pl.col("p95_ns").max(),
        pl.col("count").sum(),
    )
    label = (
        pl.when(pl.col("first") == pl.col("last"))
        .then(pl.format("{}", "first"))
        .otherwise(pl.format("{}-{}", "first", "last"))
    )
    return bins.sort("bin").select(
        pl.lit(name).alias("name"),
        label.alias("iteration"),
        (pl.col("mean_ns") / pl.col("mean_ns").max()).fill_nan(0.0).alias("share"),
        "mean_ns",
        "p95_ns",
        "count",
    )


def _findings(kernel: Kernel, name: str, frame: pl.DataFrame) -> list[Finding]:
    if frame.height < 3:
        return []
    steady = float(frame["p50_ns"][1:].median())  # type: ignore[arg-type]
    first = float(frame["p50_ns"][0])
    if steady <= 0 or first < 1.5 * steady:
        return []
    text = (
        f"{kernel.name}, {name}: the first iteration takes {first / steady:.1f} times as long as the others"
    )
    return [Finding(text, data={"first_ns": first, "steady_ns": steady}, kernel=kernel.id)]
