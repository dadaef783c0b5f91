"""The intervals as comma-separated values with names in place of numbers, for spreadsheets and everything else.

Rows are written in pieces, straight from the trace's file, so that a long one needs no memory.
"""

from __future__ import annotations

import os

import polars as pl

from tileprobe.files import replacing
from tileprobe.tools.signatures import labels
from tileprobe.trace import Trace
from tileprobe.views.encodable import encodable

COLUMNS = (
    *(
        "kernel",
        "launch",
        "program",
        "stream",
        "unit",
        "region",
        "region_kind",
        "source",
        "kind",
        "iteration",
    ),
    *("outer", "start_ns", "stop_ns", "duration_ns", "value", "weight", "taken_ns", "moved"),
)


class Csv:
    """The view called `csv`."""

    name = "csv"
    suffix = ".csv"

    def write(self, trace: Trace, path: str | os.PathLike[str]) -> None:
        with replacing(path) as temporary:
            table(encodable(trace)).sink_csv(temporary)


def table(trace: Trace) -> pl.LazyFrame:
    """The intervals as a query, one row each."""
    names = labels(trace.kernels)
    kernels = {launch.id: names.get(launch.kernel, "?") for launch in trace.launches}

    def named(column: str, found: dict[int, str]) -> pl.Expr:
        return pl.col(column).replace_strict(found, default="?", return_dtype=pl.String)

    return (
        trace.scan()
        .with_columns(
            named("launch", kernels).alias("kernel"),
            named("unit", {unit.id: unit.name for unit in trace.units}),
            named("region", {region.id: region.kind for region in trace.regions}).alias("region_kind"),
            named("region", {region.id: region.source for region in trace.regions}).alias("source"),
            pl.col("region")
            .replace_strict({region.id: region.moved or None for region in trace.regions}, default=None)
            .cast(pl.Float64)
            .alias("moved"),
            named("region", {region.id: region.name for region in trace.regions}),
            (pl.col("stop_ns") - pl.col("start_ns")).alias("duration_ns"),
        )
        .select(COLUMNS)
    )
