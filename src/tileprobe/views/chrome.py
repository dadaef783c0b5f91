"""The timeline as Chrome's trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A process is a kernel on its target, a thread is a track (`views/tracks.py`): a unit, or a lane of it with a stream of
its program. Regions and waits are slices and nest as they did; asynchronous operations are spans of their own, edges
are arrows, values and counters are counters. How well the clocks of units agree is said in the metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import polars as pl

from tileprobe.files import write_file
from tileprobe.tools.signatures import told_apart
from tileprobe.trace import Trace
from tileprobe.views.encodable import encodable
from tileprobe.views.tracks import ADDS_UP, Tracks, tracks

PIECE = 200_000  # events written at a time
ENDS_BEFORE = (
    1.0  # ns: an arrow from or to the end of a slice is drawn this far inside of it, or it would miss it
)


def chrome_events(trace: Trace) -> Iterator[str]:
    """The file in pieces of text, so that a long trace never lies in memory as objects."""
    head = json.dumps({"displayTimeUnit": "ns", "otherData": _about(trace), "traceEvents": []})
    yield head[:-2] + "\n"
    drawn = tracks(trace)
    names = ",\n".join(json.dumps(event) for event in _names(trace, drawn))
    yield names
    for events in _all(trace, drawn):
        for at in range(0, events.height, PIECE):
            piece = events.slice(at, PIECE).select(pl.struct(pl.all()).struct.json_encode().alias("event"))
            yield ",\n" + piece["event"].str.join(",\n").item()
    yield "\n]}\n"


def write_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    write_file(path, chrome_events(encodable(trace)))


class Chrome:
    """The view called `chrome`."""

    name = "chrome"
    suffix = ".json"

    def write(self, trace: Trace, path: str | os.PathLike[str]) -> None:
        write_chrome(trace, path)


def _about(trace: Trace) -> dict:
    error = trace.clock_error_ns
    if error is None:
        return {}
    domains = [{"name": d.name, "hz": d.hz, "error_ns": d.error_ns} for d in trace.domains]
    return {"clock_error_ns": error, "clock_domains": domains}


def _all(trace: Trace, drawn: Tracks) -> Iterator[pl.DataFrame]:
    """Frames whose rows are events and whose columns are their fields, slices before the arrows between them."""
    frame = _described(trace, drawn.frame)
    kind = pl.col("kind")
    head, at = ["name", "cat", "pid", "tid"], _us("start_ns").alias("ts")
    duration = ((pl.col("stop_ns") - pl.col("start_ns")) / 1e3).round(3).alias("dur")
    yield frame.filter(kind.is_in(["region", "wait"])).select(*head, at, _ph("X"), duration, "args")
    yield frame.filter(kind == "mark").select(*head, at, _ph("i"), pl.lit("t").alias("s"), "args")
    values = frame.filter((kind == "value") & pl.col("value").is_finite())
    yield values.select(*head, at, _ph("C"), pl.struct("value").alias("args"))
    spans = frame.filter(kind == "async").with_row_index("id")
    identity = pl.col("id").cast(pl.String)
    yield spans.select(*head, at, _ph("b"), identity, "args")
    yield spans.select(*head, _us("stop_ns").alias("ts"), _ph("e"), identity)
    yield from _arrows(trace, drawn)
    yield _counters(trace, drawn)


def _ph(letter: str) -> pl.Expr:
    return pl.lit(letter).alias("ph")


def _us(ns: str) -> pl.Expr:
    return (pl.col(ns) / 1e3).round(3)


def _described(trace: Trace, frame: pl.DataFrame) -> pl.DataFrame:
    """The intervals with what events say of them."""

    def named(table: dict[int, str]) -> pl.Expr:
        return pl.col("region").replace_strict(table, default="", return_dtype=pl.String)

    source = named({r.id: r.remark for r in trace.regions}).alias("source")
    return frame.select(
        "kind",
        "start_ns",
        "stop_ns",
        "value",
        named({r.id: r.name for r in trace.regions}).alias("name"),
        named({r.id: r.kind for r in trace.regions}).alias("cat"),
        pl.col("kernel").alias("pid"),
        pl.col("track").alias("tid"),
        pl.struct("launch", "program", "stream", "iteration", source).alias("args"),
    )


def _names(trace: Trace, drawn: Tracks) -> Iterator[dict]:
    def event(what: str, pid: int, tid: int, **args: str | int) -> dict:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}

    error = trace.clock_error_ns
    for kernel in told_apart(trace.kernels):
        yield event("process_name", kernel.id, 0, name=f"{kernel.name} on {kernel.target}")
        if error is not None:
            yield event(
                "process_labels", kernel.id, 0, labels=f"times of different clocks compare to ±{error:.3g} ns"
            )
    for kernel, track, name in drawn.table.select("kernel", "track", "name").iter_rows():
        yield event("thread_name", kernel, track, name=name)
        yield event("thread_sort_index", kernel, track, sort_index=track)


def _arrows(trace: Trace, drawn: Tracks) -> Iterator[pl.DataFrame]:
    """An edge is two events: where it starts, and the slice around the place where it ends."""
    edges = trace.edges.with_row_index("number")
    edges = edges.join(drawn.of(edges, "from"), on="number", maintain_order="left")
    edges = edges.join(drawn.of(edges, "to").drop("kernel"), on="number", maintain_order="left")
    waits, slots = pl.col("kind").cast(pl.String).str.ends_with("-wait"), pl.col("kind") == "program-slot"
    times = {
        "from": pl.col("from_ns") - pl.when(slots).then(ENDS_BEFORE).otherwise(0.0),
        "to": pl.col("to_ns") - pl.when(waits).then(ENDS_BEFORE).otherwise(0.0),
    }
    for end, letter in (("from", "s"), ("to", "f")):
        yield edges.select(
            pl.col("kind").cast(pl.String).alias("name"),
            pl.lit("edge").alias("cat"),
            pl.col("kernel").alias("pid"),
            pl.col(f"{end}_track").alias("tid"),
            (times[end].round(0) / 1e3).round(3).alias("ts"),
            _ph(letter),
            pl.col("number").cast(pl.String).alias("id"),
            pl.lit("e").alias("bp"),
        )


def _counters(trace: Trace, drawn: Tracks) -> pl.DataFrame:
    """Counters have no time of their own: each shows its sum over units and lines while its launch runs."""
    extents = drawn.frame.group_by("launch", "kernel").agg(pl.col("start_ns").min(), pl.col("stop_ns").max())
    sums = (
        trace.counters.filter(ADDS_UP)
        .group_by("launch", "name", maintain_order=True)
        .agg(pl.col("value").sum())
    )
    known = sums.filter(pl.col("value").is_finite()).join(extents, on="launch", maintain_order="left")
    begin = known.select("name", "kernel", pl.col("start_ns").alias("ns"), "value")
    end = known.select("name", "kernel", pl.col("stop_ns").alias("ns"), pl.lit(0.0).alias("value"))
    return pl.concat([begin, end]).select(
        "name",
        pl.lit("counter").alias("cat"),
        pl.col("kernel").alias("pid"),
        pl.lit(0).alias("tid"),
        _us("ns").alias("ts"),
        _ph("C"),
        pl.struct("value").alias("args"),
    )
