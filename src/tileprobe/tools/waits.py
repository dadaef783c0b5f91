"""Waits: how long streams wait at each place, how often, and for whom.

Comes in: what a kernel does at each moment (`activities`) and the trace's edges, which say who was waited for: who
issued the asynchronous operation, who arrived last at the barrier. Where a target knows no edges, what ran at the same
place meanwhile is the best that can be said, and it is said so.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tileprobe.tools.activities import OTHER, WAITING, Activities
from tileprobe.tools.bubbles import STREAM, WORTH, Told, last_at, named
from tileprobe.tools.result import Column, Finding
from tileprobe.tools.words import duration
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.sweep import KINDS, states

WAITS = [
    Column("name", "text", "wait"),
    Column("share", "share", "of its streams' time"),
    Column("ns", "ns", "waited"),
    Column("count", "count", "count"),
    Column("mean_ns", "ns", "mean"),
    Column("longest_ns", "ns", "longest"),
    Column("whom", "text", "for"),
]
MEANWHILE = "meanwhile "
LONG = 4.0  # times as long as all else on its unit: what others have to wait for
SLACK_NS = 1.0  # an edge ends where its wait does, but for rounding


def waits(trace: Trace, kernel: Kernel, found: Activities) -> Told | None:
    """Each place where streams wait; None where none does."""
    waits = found.waits
    if not waits.height:
        return None
    names = {region.id: region.name for region in trace.regions}
    region = pl.col("region").replace_strict(names, default="?", return_dtype=pl.String)
    waits = waits.with_columns(
        (region if found.by_unit else named(trace, kernel, "stream", "region")).alias("name"),
        (pl.col("stop_ns") - pl.col("start_ns")).alias("ns"),
    )
    work = found.spans.filter(pl.col("what") != WAITING).with_columns(
        (region if found.by_unit else pl.col("what")).alias("name")
    )
    whom = _awaited(trace, kernel, waits)
    if whom.null_count():
        beside = _meanwhile(waits, work, ["launch", "unit"])
        said = waits["name"].replace_strict(beside, default="", return_dtype=pl.String)
        whom = pl.select(pl.coalesce(whom, said)).to_series()
    waits = waits.with_columns(whom.alias("whom"))
    table = waits.group_by("name", "whom").agg(
        pl.col("ns").sum(),
        pl.len().alias("count"),
        pl.col("ns").mean().alias("mean_ns"),
        pl.col("ns").max().alias("longest_ns"),
    )
    table = table.join(_lasted(found, waits), on="name", how="left")
    table = table.with_columns((pl.col("ns") / pl.col("of_ns")).alias("share"))
    table = table.sort("ns", "name", "whom", descending=[True, False, False])
    return Told(table, _findings(kernel, table, waits, work, found))


def _lasted(found: Activities, waits: pl.DataFrame) -> pl.DataFrame:
    """For each wait how long the streams (units) in which it is are there in all."""
    key = ["launch", "unit"] if found.by_unit else STREAM
    lasted = found.spans.group_by(key).agg(
        (pl.col("stop_ns").max() - pl.col("start_ns").min()).alias("of_ns")
    )
    streams = waits.select("name", *key).unique()
    return streams.join(lasted, on=key).group_by("name").agg(pl.col("of_ns").sum())


def _awaited(trace: Trace, kernel: Kernel, waits: pl.DataFrame) -> pl.Series:
    """For each wait who ended it, by the edge that ends where it does; null where there is none."""
    launches = waits["launch"].unique().to_list()
    ends = {f"to_{name}": name for name in ("program", "stream")}
    edges = trace.scan_edges().filter(pl.col("launch").is_in(launches)).rename(ends).collect()
    nobody = pl.Series("whom", [None] * waits.height, pl.String)
    if not edges.height:
        return nobody
    edges = edges.with_columns(_source(trace, kernel).alias("whom"))
    both = pl.concat([edges.select(STREAM), waits.select(STREAM)])
    number = both.select(pl.struct(STREAM).rank("dense")).to_series().to_numpy().astype(np.int64)
    theirs, mine = number[: edges.height], number[edges.height :]
    time = edges["to_ns"].to_numpy()
    order = np.lexsort((time, theirs))
    at = last_at(theirs[order], time[order], mine, waits["stop_ns"].to_numpy() + SLACK_NS)
    hit = (
        (at >= 0) & (theirs[order][at] == mine) & (time[order][at] >= waits["start_ns"].to_numpy() - SLACK_NS)
    )
    return edges["whom"][order[np.where(hit, at, 0)]].set(pl.Series(~hit), None)


def _source(trace: Trace, kernel: Kernel) -> pl.Expr:
    at = named(trace, kernel, "from_stream", "from_region")
    other = pl.col("from_program") != pl.col("program")
    return pl.when(other).then(pl.concat_str(at, pl.lit(" of another program"))).otherwise(at)


def _meanwhile(waits: pl.DataFrame, work: pl.DataFrame, place: list[str]) -> dict[str, str]:
    """For each wait, by name, what ran longest beside it at its place."""
    columns = (*place, "name", "start_ns", "stop_ns")
    beside = work.filter(pl.col("name") != OTHER).select(*columns, pl.lit(False).alias("waits"))
    rows = pl.concat([waits.select(*columns, pl.lit(True).alias("waits")), beside])
    lasted = (pl.col("stop_ns") - pl.col("start_ns")).sum().alias("ns")
    key = rows.group_by("waits", "name").agg(lasted).sort("ns", "name", descending=[True, False]).head(KINDS)
    key = key.with_row_index("bit")
    rows = rows.join(key.drop("ns"), on=["waits", "name"])
    group = rows.select(pl.struct(place).rank("dense")).to_series().to_numpy()
    swept = states(group, *(rows[name].to_numpy() for name in ("bit", "start_ns", "stop_ns")))
    bits = {flag: key.filter(pl.col("waits") == flag).select("name", "bit").rows() for flag in (True, False)}
    found: dict[str, str] = {}
    for name, bit in bits[True]:
        waiting = np.where(swept.mask & (1 << bit), swept.length, 0.0)
        others = [(float(waiting[swept.mask & (1 << other) != 0].sum()), what) for what, other in bits[False]]
        ns, what = max(others, default=(0.0, ""))
        found[name] = f"{MEANWHILE}{what}" if ns > 0 else ""
    return found


def _held(waits: pl.DataFrame, work: pl.DataFrame, name: str, whom: str) -> dict[str, float]:
    """How long what ran meanwhile takes a unit at a time, and all else there, where that is much less and the wait is
    about as long: who needs the unit for a moment then waits until something long is through with it."""
    place = ["launch", "unit"]
    mine = waits.filter(pl.col("name") == name)
    there = work.join(mine.select(place).unique(), on=place, how="semi")
    long, took = pl.col("name") == whom, pl.col("stop_ns") - pl.col("start_ns")
    found = there.select(
        took.filter(long).mean().alias("held_ns"), took.filter(~long).mean().alias("others_ns")
    )
    held, others = found.row(0)
    if held is None or others is None or held < LONG * others or mine["ns"].mean() < held / 2:  # type: ignore[operator]
        return {}
    return {"held_ns": held, "others_ns": others}


def _findings(
    kernel: Kernel, table: pl.DataFrame, waits: pl.DataFrame, work: pl.DataFrame, found: Activities
) -> list[Finding]:
    """The wait that takes longest, if that is much of the time of those who wait."""
    top = table.row(0, named=True)
    if not top["share"] or top["share"] < WORTH:
        return []
    if found.by_unit:
        times = f"{top['count']:,} times{' of those recorded' if found.sampled else ''}"
        text = f"{kernel.name}: {top['name']}: {times}, {duration(top['mean_ns'])} each, {top['whom']}"
        held = _held(waits, work, top["name"], top["whom"].removeprefix(MEANWHILE))
        if held:
            text += (
                f", which hold it for {duration(held['held_ns'])} at a time where all else takes "
                f"{duration(held['others_ns'])}: in shorter pieces they would let the others through"
            )
            held = {"cause": "held", "by": top["whom"].removeprefix(MEANWHILE), **held}
        return [Finding(text, data={"wait": top, **held}, kernel=kernel.id)]
    whom = f", for {top['whom']}" if top["whom"] and not top["whom"].startswith(MEANWHILE) else ""
    text = f"{kernel.name}: {100 * top['share']:.0f} % of the time of its streams is waited at {top['name']}{whom}"
    return [Finding(text, data={"wait": top}, kernel=kernel.id)]
