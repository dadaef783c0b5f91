"""programs: which unit ran which programs, how evenly they were loaded, and what the tail cost.

A program on a unit lasts from the first start to the last stop of all its streams there. *Busy* is the time in which
a unit ran at least one program; *work* counts each program, so that two at once for an hour are two hours of work.
"""

from __future__ import annotations

import polars as pl

from tileprobe.tools.plan import Plan
from tileprobe.tools.regions import DURATION
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.intervals import covered_by, lanes

UNITS = [
    Column("unit", "text", "unit"),
    Column("share", "share", ""),
    Column("busy_ns", "ns", "busy"),
    Column("work_ns", "ns", "work"),
    Column("programs", "count", "programs"),
    Column("at_once", "count", "most at once"),
    Column("mean_ns", "ns", "mean"),
    Column("p95_ns", "ns", "p95"),
    Column("slowest", "count", "slowest"),
]


class Programs:
    name = "programs"

    def plan(self) -> Plan:
        return Plan()

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        for kernel in trace.kernels:
            runs = program_times(trace, kernel)
            if runs.height:
                result.tables.append(
                    Table(f"{kernel.name}: units", unit_loads(trace, runs), UNITS, kernel.id)
                )
                result.findings += _findings(kernel, runs)
        return result


def program_times(trace: Trace, kernel: Kernel) -> pl.DataFrame:
    """One row a program of each launch: launch, program, unit, start_ns, stop_ns, lane."""
    launches = [launch.id for launch in trace.kernel_launches(kernel.id)]
    roots = [r.id for r in trace.kernel_regions(kernel.id) if r.kind == "kernel"]
    mine = trace.scan().filter(pl.col("launch").is_in(launches))
    if roots:
        mine = mine.filter(pl.col("region").is_in(roots))
    grouped = mine.group_by("launch", "program", "unit").agg(
        pl.col("start_ns").min(), pl.col("stop_ns").max()
    )
    runs = grouped.sort("launch", "start_ns", "program").collect(engine="streaming")
    lane = lanes(*(runs[name].to_numpy() for name in ("unit", "start_ns", "stop_ns")))
    return runs.with_columns(pl.Series("lane", lane, pl.Int64))


def unit_loads(trace: Trace, runs: pl.DataFrame) -> pl.DataFrame:
    """One row a unit."""
    names = {unit.id: unit.name for unit in trace.units}
    units, busy = covered_by(*(runs[name].to_numpy() for name in ("unit", "start_ns", "stop_ns")))
    covered = pl.DataFrame({"unit": units, "busy_ns": busy}, schema_overrides={"unit": pl.UInt32})
    loads = runs.group_by("unit").agg(
        DURATION.sum().alias("work_ns"),
        pl.len().alias("programs"),
        (pl.col("lane").max() + 1).alias("at_once"),
        DURATION.mean().alias("mean_ns"),
        DURATION.quantile(0.95).alias("p95_ns"),
        pl.col("program").get(DURATION.arg_max()).alias("slowest"),
    )
    return (
        loads.join(covered, on="unit")
        .sort("unit")
        .select(
            pl.col("unit").replace_strict(
                names, default=pl.format("unit {}", "unit"), return_dtype=pl.String
            ),
            (pl.col("busy_ns") / pl.col("busy_ns").max()).fill_nan(0.0).alias("share"),
            *["busy_ns", "work_ns", "programs", "at_once", "mean_ns", "p95_ns", "slowest"],
        )
    )


def balance(runs: pl.DataFrame) -> dict[str, float]:
    """Over all launches: imbalance (the work of the busiest unit over the mean), and the tail: the share of the time
    of all units together that they stood idle after their last program."""
    per_unit = runs.group_by("launch", "unit").agg(DURATION.sum().alias("work"), pl.col("stop_ns").max())
    per_launch = per_unit.group_by("launch").agg(
        (pl.col("work").max() / pl.col("work").mean()).alias("imbalance"),
        (pl.col("stop_ns").max() - pl.col("stop_ns")).sum().alias("tail"),
        pl.col("stop_ns").max().alias("end"),
        pl.len().alias("units"),
    )
    begins = runs.group_by("launch").agg(pl.col("start_ns").min().alias("begin"))
    joined = per_launch.join(begins, on="launch")
    area = float(((joined["end"] - joined["begin"]) * joined["units"]).sum())
    return {
        "imbalance": float(joined["imbalance"].mean() or 1.0),  # type: ignore[arg-type]
        "tail": float(joined["tail"].sum()) / area if area else 0.0,
        "units": float(joined["units"].max() or 0),  # type: ignore[arg-type]
    }


def _findings(kernel: Kernel, runs: pl.DataFrame) -> list[Finding]:
    found = []
    state = balance(runs)
    if state["units"] > 1 and state["imbalance"] > 1.05:
        more = 100 * (state["imbalance"] - 1)
        text = f"{kernel.name}: the busiest unit works {more:.0f} % more than the mean"
        found.append(Finding(text, data=state))
    if state["units"] > 1 and state["tail"] > 0.05:
        idle = f"{100 * state['tail']:.0f} %"
        text = f"{kernel.name}: at the end of a launch units stand idle for {idle} of their time"
        found.append(Finding(text, data=state))
    lengths = runs.select(DURATION.alias("ns"))["ns"]
    median, worst = float(lengths.median() or 0.0), float(lengths.max() or 0.0)  # type: ignore[arg-type]
    if runs.height > 2 and median > 0 and worst > 2 * median:
        text = f"{kernel.name}: the slowest program takes {worst / median:.1f} times the median"
        found.append(Finding(text, data={"median_ns": median, "worst_ns": worst}))
    return found
