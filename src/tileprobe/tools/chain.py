"""The critical path as a chain, and what it waits for.

Comes in: the rows of a path. Goes out: for all launches what it stood still for, at which place, for whom; for the
launch of median length its legs, each on one stream from one hand-over to the next, the longest of them.
"""

from __future__ import annotations

import polars as pl

from tileprobe.tools.bubbles import named
from tileprobe.tools.path import Path
from tileprobe.tools.result import Column
from tileprobe.trace import Kernel, Trace

HELD = [
    Column("name", "text", "held up at"),
    Column("whom", "text", "by"),
    Column("share", "share", "of the launch"),
    Column("ns", "ns", "a launch"),
    Column("count", "number", "times"),
    Column("longest_ns", "ns", "longest"),
]
CHAIN = [
    Column("at_ns", "ns", "since the start"),
    Column("ns", "ns", "for"),
    Column("unit", "text", "unit"),
    Column("program", "text", "program"),
    Column("stream", "text", "stream"),
    Column("what", "text", "what"),
    Column("kind", "text", ""),
]
LEGS = 24  # of the chain that are shown


def held_up(trace: Trace, kernel: Kernel, path: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """Where the path goes from one stream to another, or waits for what a stream has issued itself. The time that was
    waited, not that of the operation."""
    handed = path.handed
    text = ("name", "whom")
    empty = {column.name: pl.String if column.name in text else pl.Float64 for column in HELD}
    steps = rows.filter(pl.col("handover") >= 0).unique("handover", keep="first")
    if handed is None or not steps.height:
        return pl.DataFrame(schema=empty)
    assert path.streams is not None
    number = steps["handover"].to_numpy()
    stream = path.streams.key["stream"].to_numpy()
    program = path.streams.key["program"].to_numpy()
    to, source = handed.to[number], handed.source[number]
    frame = pl.DataFrame(
        {
            "launch": steps["launch"],
            "at_stream": stream[to].astype("int64"), "at_region": handed.at[number],
            "of_stream": stream[source].astype("int64"), "of_region": handed.region[number],
            "other": program[source] != program[to], "waited": handed.waited[number],
            "own": source == to,
        }
    )  # fmt: skip
    whom = named(trace, kernel, "of_stream", "of_region")
    frame = frame.with_columns(
        named(trace, kernel, "at_stream", "at_region").alias("name"),
        pl.when("other")
        .then(pl.concat_str(whom, pl.lit(" of another program")))
        .otherwise(whom)
        .alias("whom"),
    )
    found = frame.group_by("name", "whom").agg(
        pl.col("waited").sum().alias("total"), pl.len().alias("n"), pl.col("waited").max().alias("longest_ns")
    )
    whole, launches = sum(path.lasted.values()), len(path.lasted)
    return found.select(
        "name",
        (pl.col("total") / whole).alias("share"),
        (pl.col("total") / launches).alias("ns"),
        (pl.col("n") / launches).alias("count"),
        "longest_ns",
        "whom",
    ).sort("share", "name", descending=[True, False])


def chain(trace: Trace, kernel: Kernel, path: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """The longest legs of the median launch, in the order of time."""
    launch = sorted(path.lasted, key=lambda n: path.lasted[n])[(len(path.lasted) - 1) // 2]
    mine = rows.filter(pl.col("launch") == launch).reverse()
    if not mine.height:
        return mine
    change = pl.any_horizontal(
        pl.col(name) != pl.col(name).shift(1) for name in ("program", "stream", "unit", "handover")
    )
    mine = mine.with_columns(change.fill_null(True).cum_sum().alias("leg"))
    most = (
        mine.group_by("leg", "name", "kind").agg(pl.col("ns").sum()).sort("ns", "name", descending=True)
        .group_by("leg", maintain_order=True).agg(pl.col("name").first(), pl.col("kind").first())
    )  # fmt: skip
    legs = mine.group_by("leg").agg(
        pl.col("start_ns").min(),
        pl.col("ns").sum(),
        pl.col("unit", "program", "stream", "handover").first(),
    )
    legs = legs.join(most, on="leg").sort("leg")
    names = {unit.id: unit.name for unit in trace.units}
    what = pl.when(pl.col("name") == "").then("kind").otherwise("name")
    waits = pl.when(pl.col("handover") >= 0).then(pl.lit("waits for "))
    told = legs.select(
        (pl.col("start_ns") - pl.col("start_ns").min()).alias("at_ns"),
        "ns",
        pl.col("unit").replace_strict(names, default="", return_dtype=pl.String).alias("unit"),
        pl.format("{}", "program").alias("program"),
        pl.col("stream").cast(pl.Int64).replace_strict(
            dict(enumerate(trace.stream_names(kernel.id))), default="", return_dtype=pl.String
        ).alias("stream"),
        pl.concat_str(waits.otherwise(pl.lit("")), what).alias("what"),
        "kind",
    )  # fmt: skip
    return told.sort("ns", descending=True).head(LEGS).sort("at_ns")
