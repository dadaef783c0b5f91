"""programs: which unit ran which programs, how evenly they were loaded, and what the tail cost.

A program on a unit lasts from the first start to the last stop of all its streams there, without what the operating
system took. *Busy* is the time in which a unit ran at least one recorded program; *work* counts each program, so that
two at once for an hour are two hours of work, and recorded ones for those that were not.
"""

from __future__ import annotations

import polars as pl

from tileprobe.tools.figures import weighted_quantile
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.intervals import covered_by, lanes
from tileprobe.trace.works import left_out

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
WORK = pl.col("lasted_ns") * pl.col("weight")
FAR = 2.0  # times the median is slow


class Programs:
    name = "programs"

    def plan(self) -> Plan:
        return Plan()

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        gone = list(left_out(trace))
        for kernel in told_apart(trace.kernels):
            runs = program_times(trace, kernel)
            runs = runs.filter(~pl.col("launch").is_in(gone))
            if runs.height:
                result.tables.append(
                    Table(f"{kernel.name}: units", unit_loads(trace, runs), UNITS, kernel.id)
                )
                result.findings += _findings(kernel, runs)
        return result


def program_times(trace: Trace, kernel: Kernel) -> pl.DataFrame:
    """One row a program of each launch: launch, program, unit, start_ns, stop_ns, lasted_ns (without interruptions),
    taken_ns, raw_ns (with the cost of the probes and all), weight, lane."""
    launches = [launch.id for launch in trace.kernel_launches(kernel.id)]
    roots = [r.id for r in trace.kernel_regions(kernel.id) if r.kind == "kernel"]
    mine = trace.scan().filter(pl.col("launch").is_in(launches))
    if roots:
        mine = mine.filter(pl.col("region").is_in(roots))
    # where no kernel is around what a unit did, the unit is there once, whatever was sampled of its work
    weight = pl.col("weight").min().cast(pl.Float64) if roots else pl.lit(1.0).alias("weight")
    grouped = mine.group_by("launch", "program", "unit").agg(
        pl.col("start_ns").min(),
        pl.col("stop_ns").max(),
        pl.col("taken_ns").max().cast(pl.Float64),
        ((pl.col("stop").max() - pl.col("start").min()) * (1e9 / kernel.clock.hz)).alias("raw_ns"),
        weight,
    )
    lasted = pl.col("stop_ns") - pl.col("start_ns") - pl.col("taken_ns")
    grouped = grouped.with_columns(lasted.alias("lasted_ns"))
    runs = grouped.sort("launch", "start_ns", "program").collect(engine="streaming")
    lane = lanes(*(runs[name].to_numpy() for name in ("unit", "start_ns", "stop_ns")))
    return runs.with_columns(pl.Series("lane", lane, pl.Int64))


def unit_loads(trace: Trace, runs: pl.DataFrame) -> pl.DataFrame:
    """One row a unit."""
    names = {unit.id: unit.name for unit in trace.units}
    units, busy = covered_by(*(runs[name].to_numpy() for name in ("unit", "start_ns", "stop_ns")))
    covered = pl.DataFrame({"unit": units, "busy_ns": busy}, schema_overrides={"unit": pl.UInt32})
    loads = runs.group_by("unit").agg(
        WORK.sum().alias("work_ns"),
        pl.col("weight").sum().round().cast(pl.Int64).alias("programs"),
        (pl.col("lane").max() + 1).alias("at_once"),
        (WORK.sum() / pl.col("weight").sum()).alias("mean_ns"),
        weighted_quantile("lasted_ns", "weight", 0.95).alias("p95_ns"),
        pl.col("program").get(pl.col("lasted_ns").arg_max()).alias("slowest"),
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
    per_unit = runs.group_by("launch", "unit").agg(WORK.sum().alias("work"), pl.col("stop_ns").max())
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
        found.append(Finding(text, data=state, kernel=kernel.id))
    if state["units"] > 1 and state["tail"] > 0.05:
        idle = f"{100 * state['tail']:.0f} %"
        text = f"{kernel.name}: at the end of a launch units stand idle for {idle} of their time"
        found.append(Finding(text, data=state, kernel=kernel.id))
    return found + _slowest(kernel, runs)


def _slowest(kernel: Kernel, runs: pl.DataFrame) -> list[Finding]:
    """The program that takes longest; one that did so once and not in other launches was perhaps interrupted."""
    median = float(runs["lasted_ns"].median() or 0.0)  # type: ignore[arg-type]
    top = runs.sort("lasted_ns", descending=True).row(0, named=True)
    if runs.height < 3 or median <= 0 or top["lasted_ns"] <= FAR * median:
        return []
    times = f"{top['lasted_ns'] / median:.1f} times the median"
    data = {"program": top["program"], "median_ns": median, "worst_ns": top["lasted_ns"]}
    others = runs.filter((pl.col("program") == top["program"]) & (pl.col("launch") != top["launch"]))
    usual = others["lasted_ns"].median()
    if usual is not None and float(usual) <= FAR * median:  # type: ignore[arg-type]
        text = (
            f"{kernel.name}: program {top['program']} took {times} in one launch and not in others: by chance"
        )
        return [Finding(text, data={**data, "once": True}, kernel=kernel.id)]
    text = f"{kernel.name}: the slowest program, {top['program']}, takes {times}"
    return [Finding(text, data=data, kernel=kernel.id)]
