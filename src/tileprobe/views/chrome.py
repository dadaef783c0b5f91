"""The timeline as Chrome's trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A process is a kernel on its target, a thread is a unit (a core, a channel). Regions are slices and nest as
they did in the program; asynchronous operations are flows of their own, values are counters.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import polars as pl

from tileprobe.files import write_file
from tileprobe.trace import Trace

PIECE = 200_000  # intervals written at a time


def chrome_events(trace: Trace) -> Iterator[str]:
    """The file in pieces of text, so that a long trace never lies in memory as objects."""
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    yield ",\n".join(json.dumps(event) for event in _names(trace))
    ordered = _ordered(trace)
    for first in range(0, ordered.height, PIECE):
        lines = _lines(ordered.slice(first, PIECE).lazy(), trace).collect()
        for column in ("main", "extra"):
            found = lines[column].drop_nulls()
            if len(found):
                yield ",\n" + found.str.join(",\n").item()
    yield "\n]}\n"


def write_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    write_file(path, chrome_events(trace))


def _names(trace: Trace) -> list[dict]:
    events: list[dict] = []
    used = trace.scan().select("launch", "unit").unique().collect()
    kernel_of = {launch.id: launch.kernel for launch in trace.launches}
    pairs = {(kernel_of[row[0]], row[1]) for row in used.iter_rows()}
    units = {unit.id: unit.name for unit in trace.units}
    for kernel in trace.kernels:
        name = f"{kernel.name} on {kernel.target}"
        events.append({"ph": "M", "name": "process_name", "pid": kernel.id, "tid": 0, "args": {"name": name}})
    for kernel, unit in sorted(pairs):
        name = units.get(unit, f"unit {unit}")
        events.append({"ph": "M", "name": "thread_name", "pid": kernel, "tid": unit, "args": {"name": name}})
    return events


def _ordered(trace: Trace) -> pl.DataFrame:
    """Whole nanoseconds, which is what viewers keep, and what encloses before what it encloses."""
    depths = {region.id: region.depth for region in trace.regions}
    depth = pl.col("region").replace_strict(depths, default=0, return_dtype=pl.Int32)
    times = trace.scan().with_columns(
        pl.col("start_ns").round(0), pl.col("stop_ns").round(0), depth.alias("depth")
    )
    return times.sort("start_ns", -pl.col("stop_ns"), "depth").collect()


def _lines(frame: pl.LazyFrame, trace: Trace) -> pl.LazyFrame:
    """One event a line; an asynchronous operation takes two, its begin and its end."""
    names = {r.id: json.dumps(r.name, ensure_ascii=False) for r in trace.regions}
    kinds = {r.id: json.dumps(r.kind, ensure_ascii=False) for r in trace.regions}
    sources = {r.id: json.dumps(r.source, ensure_ascii=False) for r in trace.regions}
    kernels = {launch.id: launch.kernel for launch in trace.launches}
    ts, duration = pl.col("start_ns") / 1e3, (pl.col("stop_ns") - pl.col("start_ns")) / 1e3
    launch, program, iteration = (pl.col(name) for name in ("launch", "program", "iteration"))

    def named(table: dict[int, str]) -> pl.Expr:
        return pl.col("region").replace_strict(table, default='""', return_dtype=pl.String)

    place = pl.format('"pid":{},"tid":{}', pl.col("launch").replace_strict(kernels, default=0), "unit")
    arguments = pl.concat_str(
        pl.lit('"args":{"launch":'), launch, pl.lit(',"program":'), program,
        pl.lit(',"iteration":'), iteration, pl.lit(',"source":'), named(sources), pl.lit("}"),
    )  # fmt: skip
    head = pl.concat_str(
        pl.lit('{"name":'), named(names), pl.lit(',"cat":'), named(kinds), pl.lit(","), place
    )
    at = pl.concat_str(pl.lit(',"ts":'), ts.round(3))
    slices = pl.concat_str(
        head, at, pl.lit(',"ph":"X","dur":'), duration.round(3), pl.lit(","), arguments, pl.lit("}")
    )
    instants = pl.concat_str(head, at, pl.lit(',"ph":"i","s":"t",'), arguments, pl.lit("}"))
    counters = pl.concat_str(
        head, at, pl.lit(',"ph":"C","args":{"value":'), pl.col("value").fill_null(0.0), pl.lit("}}")
    )
    key = pl.concat_str(
        pl.lit(',"id":"'),
        "launch",
        pl.lit("."),
        "program",
        pl.lit("."),
        "region",
        pl.lit("."),
        "outer",
        pl.lit("."),
        "iteration",
        pl.lit('"'),
    )
    begins = pl.concat_str(head, at, key, pl.lit(',"ph":"b",'), arguments, pl.lit("}"))
    ends = pl.concat_str(
        head, pl.lit(',"ts":'), (pl.col("stop_ns") / 1e3).round(3), key, pl.lit(',"ph":"e","args":{}}')
    )
    kind = pl.col("kind")
    main = (
        pl.when(kind == "async").then(begins)
        .when(kind == "mark").then(instants)
        .when(kind == "value").then(counters)
        .otherwise(slices)
    )  # fmt: skip
    extra = pl.when(kind == "async").then(ends)
    return frame.select(main.alias("main"), extra.alias("extra"))
