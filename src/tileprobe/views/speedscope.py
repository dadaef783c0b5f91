"""The timeline for speedscope (speedscope.app): one profile a track, each region a frame with its source.

Regions and waits open and close as they did; the file is written in pieces, so that a long trace never lies in memory
as objects.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import polars as pl

from tileprobe.files import write_file
from tileprobe.ir.regions import moved_out
from tileprobe.tools.signatures import labels
from tileprobe.trace import Trace
from tileprobe.views.brackets import brackets
from tileprobe.views.encodable import encodable
from tileprobe.views.tracks import SLICES, tracks

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
PIECE = 200_000  # events written at a time


class Speedscope:
    """The view called `speedscope`."""

    name = "speedscope"
    suffix = ".speedscope.json"

    def write(self, trace: Trace, path: str | os.PathLike[str]) -> None:
        write_file(path, speedscope(trace))


def speedscope(trace: Trace) -> Iterator[str]:
    """The file in pieces of text."""
    trace = encodable(trace)
    frames = [
        {"name": f"{r.name} ({moved_out(r.moved)})" if r.moved else r.name}
        | ({"file": r.file, "line": r.first_line} if r.first_line else {})
        for r in trace.regions
    ]
    head = {"$schema": SCHEMA, "exporter": "tileprobe", "shared": {"frames": frames}, "profiles": []}
    yield json.dumps(head)[:-2]
    drawn = tracks(trace)
    kernels = labels(trace.kernels)
    number = {region.id: n for n, region in enumerate(trace.regions)}
    slices = drawn.frame.filter(pl.col("kind").is_in(SLICES))
    names = {(k, n): name for k, n, name in drawn.table.select("kernel", "track", "name").iter_rows()}
    separator = ""
    for (kernel, track), mine in slices.group_by("kernel", "track", maintain_order=True):
        title = f"{kernels.get(kernel, '?')}: {names[kernel, track]}"
        yield separator + _profile_head(title, mine)
        yield from _events(mine, number)
        yield "]}"
        separator = ",\n"
    yield "]}\n"


def _profile_head(title: str, mine: pl.DataFrame) -> str:
    head = {
        "type": "evented",
        "name": title,
        "unit": "nanoseconds",
        "startValue": mine["start_ns"].min(),
        "endValue": mine["stop_ns"].max(),
    }
    return json.dumps(head)[:-1] + ', "events": ['


def _events(mine: pl.DataFrame, number: dict[int, int]) -> Iterator[str]:
    track, start, stop = (mine[name].to_numpy() for name in ("track", "start_ns", "stop_ns"))
    ids, closes = brackets(track, start, stop)
    frame = mine["region"].replace_strict(number, return_dtype=pl.Int64).to_numpy()[ids]
    events = pl.DataFrame({"frame": frame, "closes": closes, "start": start[ids], "stop": stop[ids]}).select(
        pl.when("closes").then(pl.lit("C")).otherwise(pl.lit("O")).alias("type"),
        "frame",
        pl.when("closes").then("stop").otherwise("start").alias("at"),
    )
    for at in range(0, events.height, PIECE):
        piece = events.slice(at, PIECE).select(pl.struct(pl.all()).struct.json_encode().alias("event"))
        yield (",\n" if at else "\n") + piece["event"].str.join(",\n").item()
