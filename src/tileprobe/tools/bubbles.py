"""Bubbles: where streams stand still within loops.

Comes in: what a kernel does at each moment (`activities`). Goes out: for each loop how much of the time of its streams
is lost, in how many pieces, and at which wait most of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tileprobe.tools.activities import Activities
from tileprobe.tools.result import Column, Finding
from tileprobe.tools.streams import partitions
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.sweep import innermost

BUBBLES = [
    Column("name", "text", "loop"),
    Column("share", "share", "stands still"),
    Column("count", "count", "bubbles"),
    Column("mean_ns", "ns", "mean"),
    Column("longest_ns", "ns", "longest"),
    Column("mostly", "text", "mostly at"),
]
STREAM = ["launch", "program", "stream"]
WORTH = 0.05


@dataclass(frozen=True)
class Told:
    table: pl.DataFrame
    findings: list[Finding]


def named(trace: Trace, kernel: Kernel, stream: str, region: str) -> pl.Expr:
    """`partition: region`, or the region alone where a kernel has one partition."""
    names = {region.id: region.name for region in trace.regions}
    groups = partitions(trace, kernel)
    parts = {n: f"{p.name}: " for p in groups for n in p.streams} if len(groups) > 1 else {}
    said = pl.col(region).replace_strict(names, default="", return_dtype=pl.String)
    head = pl.col(stream).cast(pl.Int64).replace_strict(parts, default="", return_dtype=pl.String)
    return pl.concat_str(head, said)


def _numbers(first: pl.DataFrame, second: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Streams of two frames, by one numbering."""
    both = pl.concat([first.select(STREAM), second.select(STREAM)])
    number = both.select(pl.struct(STREAM).rank("dense")).to_series().to_numpy().astype(np.int64)
    return number[: first.height], number[first.height :]


def _around(waits: pl.DataFrame, outer: pl.DataFrame) -> np.ndarray:
    """For each wait the row of the innermost of the outer intervals around it in its stream, or -1."""
    mine, theirs = _numbers(waits, outer)
    pieces = innermost(theirs, outer["start_ns"].to_numpy(), outer["stop_ns"].to_numpy())
    order = np.lexsort((pieces.start, pieces.group))
    group, start, stop = (column[order] for column in (pieces.group, pieces.start, pieces.stop))
    at = last_at(group, start, mine, waits["start_ns"].to_numpy())
    inside = (at >= 0) & (group[at] == mine) & (waits["start_ns"].to_numpy() < stop[at])
    return np.where(inside, pieces.index[order][at], -1)


def last_at(group: np.ndarray, time: np.ndarray, of: np.ndarray, when: np.ndarray) -> np.ndarray:
    """Of sorted (group, time), the place of the last that is not behind (of, when); -1 where there is none."""
    rank = {"group": np.r_[group, of], "time": np.r_[time, when]}
    later = np.r_[np.zeros(len(group), bool), np.ones(len(of), bool)]
    order = np.lexsort((later, rank["time"], rank["group"]))
    seen = np.cumsum(~later[order]) - 1
    found = np.empty(len(order), np.int64)
    found[order] = seen
    return found[len(group) :]


def bubbles(trace: Trace, kernel: Kernel, found: Activities) -> Told | None:
    """Of each loop how much of its time its streams stand still; None where none does."""
    loops = {r.id for r in trace.kernel_regions(kernel.id) if r.kind == "loop"}
    waits = found.waits
    if found.by_unit or not loops or not waits.height:
        return None
    launches = found.spans["launch"].unique().to_list()
    mine = (
        pl.col("region").is_in(list(loops)) & pl.col("launch").is_in(launches) & (pl.col("kind") == "region")
    )
    outer = trace.scan().filter(mine).select(*STREAM, "region", "start_ns", "stop_ns").collect()
    if not outer.height:
        return None
    row = _around(waits, outer)
    inside = waits.with_columns(pl.Series("row", row)).filter(pl.col("row") >= 0)
    if not inside.height:
        return None
    held = outer[inside["row"].to_numpy()]
    inside = inside.with_columns(
        held["region"].alias("loop"),
        named(trace, kernel, "stream", "region").alias("at"),
        (pl.col("stop_ns") - pl.col("start_ns")).alias("ns"),
    ).with_columns(named(trace, kernel, "stream", "loop").alias("name"))
    whole = outer.group_by(named(trace, kernel, "stream", "region").alias("name")).agg(
        (pl.col("stop_ns") - pl.col("start_ns")).sum().alias("whole_ns")
    )
    most = inside.group_by("name", "at").agg(pl.col("ns").sum()).sort("ns", "at", descending=[True, False])
    table = inside.group_by("name").agg(
        pl.len().alias("count"),
        pl.col("ns").sum(),
        pl.col("ns").mean().alias("mean_ns"),
        pl.col("ns").max().alias("longest_ns"),
    )
    table = table.join(whole, on="name").join(
        most.group_by("name").agg(pl.col("at").first().alias("mostly")), on="name"
    )
    share = (pl.col("ns") / pl.col("whole_ns")).alias("share")
    table = table.with_columns(share).sort("ns", "name", descending=[True, False])
    return Told(table, [_bubble(kernel, row) for row in table.iter_rows(named=True) if row["share"] >= WORTH])


def _bubble(kernel: Kernel, row: dict) -> Finding:
    text = (
        f"{kernel.name}: streams stand still for {100 * row['share']:.0f} % of {row['name']}, in {row['count']:,} "
        f"bubbles, mostly at {row['mostly']}"
    )
    data = {key: row[key] for key in ("name", "share", "ns", "count", "mean_ns", "longest_ns", "mostly")}
    return Finding(text, data={"bubbles": data}, kernel=kernel.id)
