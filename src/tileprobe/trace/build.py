"""The three tables of a trace, made from what a decoder or a simulator hands over.

In come columns with ticks, some of them left out; out go frames with exactly the columns that `model` declares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.trace.clocks import Clocks
from tileprobe.trace.model import COLUMNS, COUNTERS, EDGES, KIND_DTYPE, KINDS

_DEFAULTS: dict[str, Any] = {
    "launch": 0,
    "program": 0,
    "stream": 0,
    "unit": 0,
    "kind": "region",
    "iteration": -1,
    "outer": 0,
    "value": None,
    "weight": 1.0,
    "fit": 1.0,
    "taken_ns": 0.0,
    "probes_ns": 0.0,
}
_EDGE_DEFAULTS: dict[str, Any] = {
    "launch": 0,
    **{f"{end}_{name}": 0 for end in ("from", "to") for name in ("program", "stream", "unit")},
    **{f"{end}_region": None for end in ("from", "to")},
}
_COUNTER_DEFAULTS: dict[str, Any] = {
    "launch": 0,
    "unit": 0,
    "file": "",
    "line": 0,
    "instruction": None,
    "quality": "exact",
}


def empty(schema: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(schema))


def make_intervals(
    frame: pl.DataFrame, clocks_of: Callable[[pl.DataFrame], Clocks]
) -> tuple[pl.DataFrame, Clocks]:
    """The intervals, and the clocks that made nanoseconds of their ticks."""
    frame = _complete(frame, "a trace", ("region", "start", "stop"), _DEFAULTS, COLUMNS)
    clocks = clocks_of(frame)
    if "start_ns" not in frame.columns:
        corrected = "_corrected" if "start_corrected" in frame.columns else ""
        times = [clocks.ns(f"{end}{corrected}").alias(f"{end}_ns") for end in ("start", "stop")]
        frame = frame.with_columns(times)
    if frame["kind"].dtype.is_integer():
        numbers = list(range(len(KINDS)))
        names = pl.col("kind").replace_strict(numbers, list(KINDS), return_dtype=KIND_DTYPE)
        frame = frame.with_columns(names)
    frame = _cast(frame, COLUMNS)
    return frame.with_columns(pl.col("value").fill_nan(None)), clocks


def make_edges(columns: Mapping[str, Any] | pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    frame = columns if isinstance(columns, pl.DataFrame) else pl.DataFrame(dict(columns))
    if not frame.height:
        return empty(EDGES)
    timed = "from_ns" in frame.columns
    needed = ("kind", "from_ns", "to_ns") if timed else ("kind", "from_tick", "to_tick")
    frame = _complete(frame, "a table of edges", needed, _EDGE_DEFAULTS, EDGES)
    if not timed:
        corrected = "_corrected" if "from_tick_corrected" in frame.columns else ""
        frame = frame.with_columns(
            clocks.ns(f"{end}_tick{corrected}", unit=f"{end}_unit").alias(f"{end}_ns")
            for end in ("from", "to")
        )
    return _cast(frame, EDGES)


def make_counters(columns: Mapping[str, Any] | pl.DataFrame) -> pl.DataFrame:
    frame = columns if isinstance(columns, pl.DataFrame) else pl.DataFrame(dict(columns))
    if not frame.height:
        return empty(COUNTERS)
    frame = _complete(frame, "a table of counters", ("name", "value"), _COUNTER_DEFAULTS, COUNTERS)
    return _cast(frame, COUNTERS)


def _complete(
    frame: pl.DataFrame,
    what: str,
    needed: tuple[str, ...],
    defaults: Mapping[str, Any],
    schema: Mapping[str, Any],
) -> pl.DataFrame:
    for name in needed:
        if name not in frame.columns:
            raise TileProbeError(f"{what} needs the column {name!r}; there are {', '.join(frame.columns)}")
    absent = [pl.lit(v, schema[k]).alias(k) for k, v in defaults.items() if k not in frame.columns]
    unsaid = [
        pl.col(k).fill_null(v)
        for k, v in defaults.items()
        if v is not None and k in frame.columns and frame[k].null_count()
    ]
    return frame.with_columns([*absent, *unsaid])


def _cast(frame: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    try:
        return frame.select([pl.col(name).cast(dtype) for name, dtype in schema.items()])
    except pl.exceptions.InvalidOperationError as error:
        raise TileProbeError(f"a column of the trace has values it cannot hold: {error}") from error
