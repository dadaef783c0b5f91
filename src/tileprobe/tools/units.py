"""units: how busy each kind of unit is and with what, which kinds work at the same time, and which one limits.

Reads any trace whose units have kinds (channels, planes, cores, an NPU, warps, SMs). *Busy* is time in which a unit
does at least one thing: several programs at once on it count once. *Work* counts each of them. Time that no interval
of a kernel covers (sampled away) counts for nothing. A simulator that has counted every unit over the whole run says
so under `busy` in the trace's metadata (kernel -> kind -> share) and is believed; sentences under `notes` become
findings.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tileprobe.ir.machine import ALWAYS, limiting
from tileprobe.tools.figures import LASTED, STANDS
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.tools.signatures import told_apart
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.intervals import covered_by, length, merge, merge_by, overlap

BUSY = [
    Column("kind", "text", "unit"),
    Column("busy", "share", "busy"),
    Column("count", "count", "units"),
    Column("busiest", "share", "busiest"),
    Column("idlest", "share", "idlest"),
    Column("at_once", "number", "programs at once"),
]
WORK = [
    Column("kind", "text", "unit"),
    Column("name", "text", "does"),
    Column("share", "share", "work, of its time"),
    Column("count", "count", "count"),
    Column("mean_ns", "ns", "mean"),
]
BOTH = [Column("kinds", "text", "at once"), Column("share", "share", "of the time")]


class Units:
    name = "units"

    def plan(self) -> Plan:
        return Plan(units=True)

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        for kernel in told_apart(trace.kernels):
            frame = _intervals(trace, kernel)
            if frame["unit"].n_unique() > 1:
                _tell(result, kernel, frame, _counted(trace, kernel))
        result.findings += [Finding(text) for text in trace.meta.get("notes", [])]
        return result


def _counted(trace: Trace, kernel: Kernel) -> dict[str, float]:
    """The busy share of each kind whose units count it themselves, over whole launches and not a sample of them."""
    launches = {launch.id: launch.duration_ns for launch in trace.kernel_launches(kernel.id)}
    kinds = {unit.id: unit.kind for unit in trace.units}
    mine = (pl.col("name") == "busy_ns") & pl.col("launch").is_in(list(launches))
    rows = trace.counters.filter(mine).select("launch", "unit", "value").iter_rows()
    found: dict[str, list[float]] = {}
    for launch, unit, value in rows:
        if length := launches[launch]:
            found.setdefault(kinds.get(unit, "unit"), []).append(value / length)
    return {kind: sum(shares) / len(shares) for kind, shares in found.items()}


def _intervals(trace: Trace, kernel: Kernel) -> pl.DataFrame:
    """What units did, waits left out: run (of a program on a unit), unit, kind, name, start_ns, stop_ns."""
    launches = [launch.id for launch in trace.kernel_launches(kernel.id)]
    kinds = {unit.id: unit.kind for unit in trace.units}
    names = {region.id: region.name for region in trace.kernel_regions(kernel.id)}
    mine = trace.scan().filter(pl.col("launch").is_in(launches) & pl.col("kind").is_in(["region", "async"]))
    return mine.select(
        pl.struct("launch", "program", "unit").rank("dense").alias("run"),
        "unit",
        pl.col("unit").replace_strict(kinds, default="unit", return_dtype=pl.String).alias("kind"),
        pl.col("region").replace_strict(names, default="?", return_dtype=pl.String).alias("name"),
        *("start_ns", "stop_ns", "taken_ns", "weight"),
    ).collect()


def _tell(result: Result, kernel: Kernel, frame: pl.DataFrame, counted: dict[str, float]) -> None:
    start, stop = (frame[name].to_numpy() for name in ("start_ns", "stop_ns"))
    total = length(merge(start, stop))
    if not total:
        return
    table = _busy(frame, total)
    result.tables.append(Table(f"{kernel.name}: busy", table, BUSY, kernel.id))
    result.tables.append(Table(f"{kernel.name}: what units do", _work(frame, table, total), WORK, kernel.id))
    if table.height > 1:
        result.tables.append(Table(f"{kernel.name}: at the same time", _both(frame, total), BOTH, kernel.id))
        result.findings.append(_limit(kernel, counted or dict(zip(table["kind"], table["busy"]))))


def _busy(frame: pl.DataFrame, total: float) -> pl.DataFrame:
    """One row a kind of unit, the busiest first."""
    unit, run, start, stop = (frame[name].to_numpy() for name in ("unit", "run", "start_ns", "stop_ns"))
    units, busy = covered_by(unit, start, stop)
    runs, lasted = covered_by(run, start, stop)
    owner = frame.group_by("run").agg(pl.col("unit").first()).sort("run")["unit"].to_numpy()
    assert len(owner) == len(runs)
    work = np.bincount(np.searchsorted(units, owner), lasted, len(units))
    kinds = frame.group_by("unit").agg(pl.col("kind").first()).sort("unit")["kind"]
    ones = pl.DataFrame({"kind": kinds, "busy_ns": busy, "work_ns": work})
    return (
        ones.group_by("kind", maintain_order=True)
        .agg(
            (pl.col("busy_ns").mean() / total).alias("busy"),
            pl.len().alias("count"),
            (pl.col("busy_ns").max() / total).alias("busiest"),
            (pl.col("busy_ns").min() / total).alias("idlest"),
            (pl.col("work_ns").sum() / pl.col("busy_ns").sum()).fill_nan(0.0).alias("at_once"),
        )
        .sort("busy", descending=True, maintain_order=True)
    )


def _work(frame: pl.DataFrame, table: pl.DataFrame, total: float) -> pl.DataFrame:
    """One row a kind of unit and region: how long it took on the mean unit, each program counted."""
    lasted = pl.col("stop_ns") - pl.col("start_ns")
    work = frame.group_by("kind", "name").agg(
        lasted.sum().alias("ns"),
        STANDS.sum().round().cast(pl.Int64).alias("count"),
        ((LASTED * STANDS).sum() / STANDS.sum()).alias("mean_ns"),
    )
    count = dict(zip(table["kind"], table["count"]))
    units = pl.col("kind").replace_strict(count, return_dtype=pl.Float64)
    share = (pl.col("ns") / units / total).alias("share")
    return work.with_columns(share).sort("share", "name", descending=[True, False])


def _both(frame: pl.DataFrame, total: float) -> pl.DataFrame:
    """One row a pair of kinds: how long at least one unit of each was busy at once."""
    names = frame["kind"].unique(maintain_order=True)
    number = frame["kind"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
    owner, spans = merge_by(number, frame["start_ns"].to_numpy(), frame["stop_ns"].to_numpy())
    pairs = [
        (f"{a} + {b}", overlap(spans[owner == n], spans[owner == m]) / total)
        for n, a in enumerate(names)
        for m, b in enumerate(names)
        if n < m
    ]
    schema = {"kinds": pl.String, "share": pl.Float64}
    return pl.DataFrame(pairs, schema=schema, orient="row").sort("share", descending=True)


def _limit(kernel: Kernel, busy: dict[str, float]) -> Finding:
    """The kinds that limit, by the rule that simulators use for themselves."""
    kinds = limiting(busy)
    said = " and ".join(f"{kind} ({100 * busy[kind]:.0f} % busy)" for kind in kinds)
    if busy[kinds[0]] >= ALWAYS:
        text = f"{kernel.name}: the units that limit it: {said}" + (", alike" if len(kinds) > 1 else "")
    else:
        text = f"{kernel.name}: no kind of unit is busy all the time; the busiest: {said}"
    return Finding(
        text, data={"kinds": kinds, "busy": {kind: busy[kind] for kind in kinds}}, kernel=kernel.id
    )
