"""The timeline of the page: intervals as columns of numbers, in the order in which they are drawn.

In comes a trace; out go its tracks, each with rows (nested regions below one another, asynchronous operations below
them), the intervals sorted by row and start, and the edges between them. Where there are more intervals than a page
holds, short neighbours are put together (`merging.py`), and the page says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tileprobe.trace import Trace
from tileprobe.trace.intervals import lanes
from tileprobe.trace.model import KINDS
from tileprobe.views.brackets import depths
from tileprobe.views.html.merging import Merged, merge_short
from tileprobe.views.html.packing import pack
from tileprobe.views.tracks import TRACK, Tracks, grain_ns, tracks

LIMIT = 1_000_000  # intervals that are drawn one by one: a page of 8 MB that redraws within 50 ms
EDGES = 40_000  # arcs that a page holds
SLICES = ["region", "wait"]


@dataclass
class Timeline:
    """What the page needs: `about` goes in as JSON, `packed` as one block of numbers."""

    about: dict[str, Any]
    packed: bytes = b""
    tracks: list[dict[str, Any]] = field(default_factory=list)


def timeline(trace: Trace, limit: int = LIMIT) -> Timeline:
    grain = grain_ns(trace)
    drawn = tracks(trace, grain)
    frame, table = _one_axis(trace, drawn)
    frame = _rows(frame)
    rows = frame.group_by("line").agg(pl.col("row").max() + 1).sort("line")
    heights = dict(rows.iter_rows())
    first = np.concatenate([[0], np.cumsum([heights.get(n, 1) for n in range(table.height)])]).astype(int)
    place = pl.Series(first[:-1] if table.height else [], dtype=pl.Int64)
    frame = frame.with_columns((place.gather(frame["line"]) + frame["row"]).alias("place"))
    frame = frame.sort("place", "start_ns", "stop_ns", maintain_order=True)
    origin = float(frame["start_ns"].min() or 0.0)  # type: ignore[arg-type]
    end = float(frame["stop_ns"].max() or 0.0)  # type: ignore[arg-type]
    merged = merge_short(frame, limit)
    edges = _edges(trace, drawn, table)
    columns = {**_columns(merged, origin, int(first[-1]), grain), **_edge_columns(edges.head(EDGES), origin)}
    packed, layout = pack(columns)
    about = {
        "columns": layout,
        "origin_ns": origin,
        "grain_ns": grain,
        "length_ns": end - origin,
        "intervals": frame.height,
        "drawn": merged.frame.height,
        "merged": merged.count,
        "shorter_than_ns": merged.shorter_than_ns,
        "edges": edges.height,
        "edges_drawn": min(edges.height, EDGES),
        "kinds": list(KINDS),
    }
    described = [
        {"name": name, "unit": unit, "kind": kind, "kernels": sorted(kernels), "rows": heights.get(line, 1)}
        for line, name, unit, kind, kernels in table.iter_rows()
    ]
    return Timeline(about, packed, described)


def _one_axis(trace: Trace, drawn: Tracks) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tracks of all kernels: those of one unit are one, unless kernels were on it at the same time."""
    names = drawn.table
    key = [*TRACK[1:], "name"] if _in_turns(drawn.frame) else [*TRACK, "name"]
    lines = names.select(key).unique().sort(key).with_row_index("line").cast({"line": pl.Int64})
    numbered = names.join(lines, on=key, how="left")
    frame = drawn.frame.join(numbered.select(*TRACK, "line"), on=TRACK, how="left", maintain_order="left")
    kinds = {unit.id: unit.kind for unit in trace.units}
    table = numbered.group_by("line").agg(pl.col("name").first(), pl.col("unit").first(), pl.col("kernel"))
    return frame, table.sort("line").select(
        "line",
        "name",
        "unit",
        pl.col("unit").replace_strict(kinds, default="unit", return_dtype=pl.String).alias("kind"),
        "kernel",
    )


def _in_turns(frame: pl.DataFrame) -> bool:
    """Whether no two kernels are on a unit at the same time."""
    spans = frame.group_by("unit", "kernel", "launch").agg(pl.col("start_ns").min(), pl.col("stop_ns").max())
    spans = spans.sort("unit", "start_ns")
    before = pl.col("stop_ns").shift(1).over("unit")
    other = pl.col("kernel") != pl.col("kernel").shift(1).over("unit")
    return not spans.select((other & (pl.col("start_ns") < before)).any()).item()


def _rows(frame: pl.DataFrame) -> pl.DataFrame:
    """The row of each interval within its track: how many others are around it; asynchronous ones lie below."""
    slices = pl.col("kind").is_in(SLICES)
    frame = frame.with_columns(pl.Series("row", np.zeros(frame.height, np.int64)), slices.alias("slice"))
    nested = frame.filter("slice")
    depth = depths(*(nested[name].to_numpy() for name in ("line", "start_ns", "stop_ns")))
    nested = nested.with_columns(row=pl.Series(depth, dtype=pl.Int64))
    deepest = nested.group_by("line").agg((pl.col("row").max() + 1).alias("below"))
    others = frame.filter(~pl.col("slice") & (pl.col("kind") == "async"))
    below = others.join(deepest, on="line", how="left", maintain_order="left")["below"].fill_null(0)
    lane = lanes(*(others[name].to_numpy() for name in ("line", "start_ns", "stop_ns")))
    others = others.with_columns(row=pl.Series(lane, dtype=pl.Int64) + below)
    points = frame.filter(pl.col("kind").is_in(["mark", "value"]))
    return pl.concat([nested, others, points]).drop("slice")


def _edges(trace: Trace, drawn: Tracks, table: pl.DataFrame) -> pl.DataFrame:
    """Edges with the lines that they join."""
    edges = trace.edges.with_row_index("number")
    if not edges.height:
        return edges.with_columns(from_line=pl.lit(0), to_line=pl.lit(0)).clear()
    lines = {
        (kernel, track): line
        for kernel, track, line in _track_lines(drawn, table).select("kernel", "track", "line").iter_rows()
    }
    for end in ("from", "to"):
        found = drawn.of(edges, end).rename({"kernel": f"{end}_kernel"})
        edges = edges.join(found, on="number", maintain_order="left")
        pairs = zip(edges[f"{end}_kernel"].to_list(), edges[f"{end}_track"].to_list())
        edges = edges.with_columns(pl.Series(f"{end}_line", [lines[pair] for pair in pairs], pl.Int64))
    return edges


def _track_lines(drawn: Tracks, table: pl.DataFrame) -> pl.DataFrame:
    flat = table.explode("kernel").select("line", "name", "unit", "kernel")
    return drawn.table.join(flat, on=["kernel", "unit", "name"], how="left")


def _columns(merged: Merged, origin: float, places: int, grain: float) -> dict[str, np.ndarray]:
    """Starts and lengths are in grains: whole numbers are small."""
    frame = merged.frame
    place = frame["place"].to_numpy()
    kinds = {kind: number for number, kind in enumerate(KINDS)}
    kind = frame["kind"].cast(pl.String).replace_strict(kinds, return_dtype=pl.UInt8)
    start = np.rint((frame["start_ns"].to_numpy() - origin) / grain)
    columns = {
        "offsets": np.searchsorted(place, np.arange(places + 1)).astype(np.uint32),
        "start": start,
        "length": np.rint((frame["stop_ns"].to_numpy() - origin) / grain) - start,
        "region": frame["region"].to_numpy(),
        "iteration": frame["iteration"].to_numpy().astype(np.int32),
        "program": frame["program"].to_numpy(),
        "launch": frame["launch"].to_numpy(),
        "kind": kind.to_numpy(),
    }
    if (frame["weight"] != 1).any():
        columns["weight"] = frame["weight"].to_numpy()
    if (frame["taken_ns"] > 0).any():
        columns["taken"] = frame["taken_ns"].to_numpy()
    if frame["value"].count():
        columns["value"] = frame["value"].fill_null(float("nan")).to_numpy()
    if merged.count:
        columns["count"] = merged.counts
        columns["covered"] = merged.covered_ns
    return columns


def _edge_columns(edges: pl.DataFrame, origin: float) -> dict[str, np.ndarray]:
    if not edges.height:
        return {}
    return {
        "edge_from": edges["from_line"].to_numpy().astype(np.uint32),
        "edge_to": edges["to_line"].to_numpy().astype(np.uint32),
        "edge_start": edges["from_ns"].to_numpy() - origin,
        "edge_stop": edges["to_ns"].to_numpy() - origin,
        "edge_region": edges["to_region"].fill_null(2**32 - 1).to_numpy().astype(np.uint32),
    }
