"""units: how busy each kind of unit is and with what, which kinds work at the same time, and which one limits.

Reads any trace whose units have kinds (channels, planes, cores, an NPU, warps, SMs). Time that no interval of a
kernel covers (sampled away) counts for nothing. Sentences under `notes` in the trace's metadata become findings.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Column, Finding, Result, Table
from tileprobe.trace import Kernel, Trace

BUSY = [
    Column("kind", "text", "unit"),
    Column("busy", "share", "busy"),
    Column("count", "count", "units"),
    Column("busiest", "share", "busiest"),
    Column("idlest", "share", "idlest"),
]
WORK = [
    Column("kind", "text", "unit"),
    Column("name", "text", "does"),
    Column("share", "share", "of its time"),
    Column("count", "count", "count"),
    Column("mean_ns", "ns", "mean"),
]
BOTH = [Column("kinds", "text", "at once"), Column("share", "share", "of the time")]


class Units:
    name = "units"

    def plan(self) -> Plan:
        return Plan()

    def read(self, trace: Trace) -> Result:
        result = Result(self.name)
        for kernel in trace.kernels:
            frame = _intervals(trace, kernel)
            if frame["kind"].n_unique() > 1:
                _tell(result, kernel, frame)
        result.findings += [Finding(text) for text in trace.meta.get("notes", [])]
        return result


def _intervals(trace: Trace, kernel: Kernel) -> pl.DataFrame:
    """What units did, waits left out: unit, kind, name, start_ns, stop_ns."""
    launches = [launch.id for launch in trace.kernel_launches(kernel.id)]
    kinds = {unit.id: unit.kind for unit in trace.units}
    names = {region.id: region.name for region in trace.kernel_regions(kernel.id)}
    mine = trace.scan().filter(pl.col("launch").is_in(launches) & pl.col("kind").is_in(["region", "async"]))
    return mine.select(
        "unit",
        pl.col("unit").replace_strict(kinds, default="unit", return_dtype=pl.String).alias("kind"),
        pl.col("region").replace_strict(names, default="?", return_dtype=pl.String).alias("name"),
        "start_ns",
        "stop_ns",
    ).collect()


def _tell(result: Result, kernel: Kernel, frame: pl.DataFrame) -> None:
    whole = merged(frame)
    total = _length(whole)
    spans = {kind: merged(part) for (kind,), part in frame.partition_by("kind", as_dict=True).items()}
    busy = [
        (kind, _length(merged(part)) / total)
        for (kind, _), part in frame.partition_by("kind", "unit", as_dict=True, maintain_order=True).items()
    ]
    table = pl.DataFrame(busy, schema=["kind", "one"], orient="row").group_by("kind", maintain_order=True)
    table = table.agg(
        pl.col("one").mean().alias("busy"),
        pl.len().alias("count"),
        pl.col("one").max().alias("busiest"),
        pl.col("one").min().alias("idlest"),
    ).sort("busy", descending=True)
    result.tables.append(Table(f"{kernel.name}: busy", table, BUSY, kernel.id))
    count = dict(zip(table["kind"], table["count"]))
    work = frame.group_by("kind", "name").agg(
        (pl.col("stop_ns") - pl.col("start_ns")).sum().alias("ns"),
        pl.len().alias("count"),
        (pl.col("stop_ns") - pl.col("start_ns")).mean().alias("mean_ns"),
    )
    units = pl.col("kind").replace_strict(count, return_dtype=pl.Float64)
    work = work.with_columns((pl.col("ns") / units / total).alias("share")).sort("share", descending=True)
    result.tables.append(Table(f"{kernel.name}: what units do", work, WORK, kernel.id))
    kinds = table["kind"].to_list()
    pairs = [
        (f"{a} + {b}", overlap(spans[a], spans[b]) / total)
        for n, a in enumerate(kinds)
        for b in kinds[n + 1 :]
    ]
    both = pl.DataFrame(pairs, schema=["kinds", "share"], orient="row").sort("share", descending=True)
    result.tables.append(Table(f"{kernel.name}: at the same time", both, BOTH, kernel.id))
    first = table.row(0, named=True)
    text = f"{kernel.name}: the {first['kind']}s limit it, busy {100 * first['busy']:.0f} % of the time"
    result.findings.append(Finding(text, data={"kind": first["kind"], "busy": first["busy"]}))


def merged(frame: pl.DataFrame) -> np.ndarray:
    """The time that at least one interval covers, as rows (start, stop) that do not touch."""
    ordered = frame.sort("start_ns")
    start, stop = ordered["start_ns"].to_numpy(), np.maximum.accumulate(ordered["stop_ns"].to_numpy())
    fresh = np.concatenate(([True], start[1:] > stop[:-1]))
    last = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(start) - 1]))
    return np.stack([start[fresh], stop[last]], axis=1)


def _length(spans: np.ndarray) -> float:
    return float((spans[:, 1] - spans[:, 0]).sum())


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The time that both cover: what each covers together, less what either does."""
    both = pl.DataFrame(np.concatenate([a, b]), schema=["start_ns", "stop_ns"])
    return _length(a) + _length(b) - _length(merged(both))
