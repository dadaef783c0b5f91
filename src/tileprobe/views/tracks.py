"""Where intervals are drawn: each on a track with the others that run in order with it.

A track is a lane of a unit (several programs can be on a unit at once), and in it a stream of the program; slices that
would cross although they belong to one stream get a further track. In comes a trace, out go its intervals with the
number of their track, and the tracks with their names.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tileprobe.ir.accesses import PREFIX
from tileprobe.trace import Trace
from tileprobe.trace.intervals import lanes, nesting_lanes

ADDS_UP = ~pl.col("name").str.starts_with(PREFIX)  # counters of which a sum says something
RUN = ["launch", "program", "unit"]
TRACK = ["kernel", "unit", "lane", "stream", "extra"]
SLICES = ["region", "wait"]  # kinds that are drawn as slices, so that they must nest
FINE_NS = 1 / 128  # a hundredth of a cycle of a GPU: what a picture of ours is drawn to
SHORT_NS = 16.0  # where a tenth of the intervals lasts less, whole nanoseconds are too coarse for it


@dataclass
class Tracks:
    """`frame` holds the intervals, outer ones first, in whole grains, with `kernel` and `track`; `table` a row a
    track: the columns of TRACK, `track` and `name`; `runs` the lane of each program on a unit."""

    frame: pl.DataFrame
    table: pl.DataFrame
    runs: pl.DataFrame

    def of(self, rows: pl.DataFrame, end: str) -> pl.DataFrame:
        """The track of each row of edges, for one end; rows whose stream is not in the trace are left out."""
        keys = {f"{end}_{name}": name for name in ("program", "stream", "unit")}
        at = rows.rename(keys).join(self.runs, on=RUN)
        found = self.table.filter(pl.col("extra") == 0).select("kernel", "unit", "lane", "stream", "track")
        joined = at.join(found, on=["kernel", "unit", "lane", "stream"])
        return joined.select("number", "kernel", pl.col("track").alias(f"{end}_track"))


def tracks(trace: Trace, grain_ns: float = 1.0) -> Tracks:
    """Times are rounded to a grain: viewers of others keep whole nanoseconds."""
    frame = _ordered(trace, grain_ns)
    runs = _lanes(frame)
    frame = frame.join(runs.drop("kernel"), on=RUN, how="left", maintain_order="left")
    frame = frame.with_columns(_extra(frame))
    table = frame.select(TRACK).unique().sort(TRACK)
    table = table.with_columns(pl.int_range(pl.len()).over("kernel").alias("track"))
    frame = frame.join(table, on=TRACK, how="left", maintain_order="left")
    return Tracks(frame, table.with_columns(_names(trace, table)), runs)


def grain_ns(trace: Trace) -> float:
    """A nanosecond; less where that would be much of an interval, as of a GPU's single instructions."""
    lasted = pl.col("stop_ns") - pl.col("start_ns")
    short = trace.scan().select(lasted.filter(lasted > 0).quantile(0.1)).collect().item()
    return FINE_NS if short is not None and short < SHORT_NS else 1.0


def _ordered(trace: Trace, grain_ns: float) -> pl.DataFrame:
    """Whole grains, and what encloses before what it encloses."""
    depths = {region.id: region.depth for region in trace.regions}
    kernels = {launch.id: launch.kernel for launch in trace.launches}
    times = trace.scan().with_columns(
        (pl.col("start_ns") / grain_ns).round(0) * grain_ns,
        (pl.col("stop_ns") / grain_ns).round(0) * grain_ns,
        pl.col("region").replace_strict(depths, default=0, return_dtype=pl.Int32).alias("depth"),
        pl.col("launch").replace_strict(kernels, default=0, return_dtype=pl.Int64).alias("kernel"),
    )
    return times.sort("start_ns", -pl.col("stop_ns"), "depth", maintain_order=True).collect()


def _lanes(frame: pl.DataFrame) -> pl.DataFrame:
    """Which lane of its unit each program has: from its first start to its last stop it is there."""
    runs = frame.group_by("kernel", *RUN, maintain_order=True).agg(
        pl.col("start_ns").min(), pl.col("stop_ns").max()
    )
    unit = runs.select(pl.struct("kernel", "unit").rank("dense").cast(pl.Int64)).to_series()
    lane = lanes(unit.to_numpy(), runs["start_ns"].to_numpy(), runs["stop_ns"].to_numpy())
    return runs.select("kernel", *RUN, pl.Series("lane", lane, pl.Int64))


def _extra(frame: pl.DataFrame) -> pl.Series:
    """0 for what has its place on the stream's own track, 1, 2, ... for slices that would cross others there."""
    number = pl.struct("kernel", "unit", "lane", "stream").rank("dense").cast(pl.Int64)
    rows = frame.select(
        pl.int_range(pl.len()).alias("row"), number.alias("group"), "start_ns", "stop_ns", "kind"
    )
    slices = rows.filter(pl.col("kind").is_in(SLICES))
    extra = nesting_lanes(*(slices[name].to_numpy() for name in ("group", "start_ns", "stop_ns")))
    found = pl.zeros(frame.height, pl.Int64, eager=True)
    return found.scatter(slices["row"], pl.Series(extra, dtype=pl.Int64)).alias("extra")


def _names(trace: Trace, table: pl.DataFrame) -> pl.Series:
    """`SM 3`, `SM 3 / lane 1 / warp 2`: no more than is needed to tell them apart."""
    units = {unit.id: unit.name for unit in trace.units}
    several = {
        column: {
            row[:2]
            for row in table.group_by("kernel", "unit").agg(pl.col(column).max()).iter_rows()
            if row[2] > 0
        }
        for column in ("lane", "stream")
    }
    names = []
    for kernel, unit, lane, stream, extra in table.select(TRACK).iter_rows():
        parts = [units.get(unit, f"unit {unit}")]
        parts += [f"lane {lane}"] if (kernel, unit) in several["lane"] else []
        named = trace.stream_name(kernel, stream) or f"stream {stream}"
        parts += [named] if (kernel, unit) in several["stream"] else []
        parts += [f"at the same time {extra}"] if extra else []
        names.append(" / ".join(parts))
    return pl.Series("name", names, pl.String)
