"""A trace on disk: one Parquet file, the side tables as JSON in its key-value metadata.

Its rows are the intervals. A trace with edges or counters has their rows behind them, in columns of their own
(`edge.kind`, `counter.name`, ...), and a column `table` that tells the three apart. `write` writes the file whole or
not at all; `read` gives the parts of a Trace back, or a `TileProbeError` that says what is wrong with the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tileprobe import __version__
from tileprobe.errors import TileProbeError
from tileprobe.files import replacing
from tileprobe.trace.model import (
    COLUMNS,
    COUNTERS,
    EDGES,
    Domain,
    Kernel,
    Launch,
    Region,
    Unit,
    Work,
    from_json,
    to_json,
)

if TYPE_CHECKING:
    from tileprobe.trace.trace import Trace

KEY = "tileprobe"
PLAIN = 1  # a file of intervals alone, as every version of TileProbe reads it
VERSION = 2  # with three tables; raise it when an old reader would misread a new file
SIDE: dict[str, type] = {
    "kernels": Kernel,
    "launches": Launch,
    "regions": Region,
    "units": Unit,
    "domains": Domain,
    "works": Work,
}
TABLES = ("interval", "edge", "counter")  # in the order in which their rows come
TABLE_DTYPE = pl.Enum(TABLES)
DISCRIMINATOR = "table"
# columns that older files lack, and what holds for them
_SINCE = {"stream": 0, "weight": 1.0, "fit": 1.0, "taken_ns": 0.0}


def write(path: str | os.PathLike[str], trace: Trace) -> None:
    """Streams the tables into one file."""
    rows, version = _rows(trace)
    head = {"format": "tileprobe-trace", "version": version, "writer": __version__, "meta": trace.meta}
    head |= {name: [to_json(row) for row in getattr(trace, name)] for name in SIDE}
    text = json.dumps(head, separators=(",", ":"))
    try:
        with replacing(path) as temporary:
            rows.sink_parquet(temporary, metadata={KEY: text}, compression="zstd", compression_level=1)
    except pl.exceptions.PolarsError as error:
        raise TileProbeError(f"cannot write the trace to {os.fspath(path)}: {error}") from error


def _rows(trace: Trace) -> tuple[pl.LazyFrame, int]:
    """All rows of the file, one table after the other, and the version of a file that has them."""
    others = {"edge": trace.scan_edges(), "counter": trace.scan_counters()}
    if not any(table.head(1).collect().height for table in others.values()):
        return trace.scan(), PLAIN
    tables = [trace.scan()]
    tables += [table.rename(lambda column, name=name: f"{name}.{column}") for name, table in others.items()]
    marked = [
        table.select(pl.lit(name, TABLE_DTYPE).alias(DISCRIMINATOR), pl.all())
        for name, table in zip(TABLES, tables)
    ]
    return pl.concat(marked, how="diagonal"), VERSION


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The parts of the trace at `path` by the names `Trace` has for them, its tables not yet read."""
    path = Path(path)
    head = _head(path)
    try:
        parts: dict[str, Any] = {
            name: [from_json(kind, row) for row in head.get(name, [])] for name, kind in SIDE.items()
        }
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise TileProbeError(f"{path} is a damaged trace: its description cannot be read: {error}") from error
    file = pl.scan_parquet(path)
    try:
        schema = file.collect_schema()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TileProbeError(f"{path} is {_diagnosis(path)}") from error
    since = {name: usual for name, usual in _SINCE.items() if name not in schema}
    file = file.with_columns(pl.lit(usual, COLUMNS[name]).alias(name) for name, usual in since.items())
    needed = set(COLUMNS) - set(since)
    if DISCRIMINATOR in schema:
        needed |= {f"edge.{name}" for name in EDGES} | {f"counter.{name}" for name in COUNTERS}
    missing = sorted(needed - set(schema))
    if missing:
        raise TileProbeError(
            f"{path} is a TileProbe trace without the column {missing[0]!r}; record it again"
        )
    parts |= {"frame": file.select(list(COLUMNS)), "meta": head.get("meta", {})}
    if DISCRIMINATOR in schema:
        parts["frame"] = file.filter(pl.col("launch").is_not_null()).select(list(COLUMNS))
        parts["edge_frame"] = _table(file, "edge", EDGES)
        parts["counter_frame"] = _table(file, "counter", COUNTERS)
    return parts


def _table(file: pl.LazyFrame, table: str, columns: dict[str, Any]) -> pl.LazyFrame:
    """The rows of one table. Every row of it has a launch, and no row of the others has this one: Polars knows
    from the file's statistics where nulls are and reads those parts only, which it does not do for an Enum."""
    mine = file.filter(pl.col(f"{table}.launch").is_not_null())
    return mine.select([pl.col(f"{table}.{name}").alias(name) for name in columns])


def _head(path: Path) -> dict[str, Any]:
    if path.is_dir():
        raise TileProbeError(f"{path} is a folder; a trace is one file, as `tileprobe run -o FILE` writes it")
    try:
        pairs = pl.read_parquet_metadata(path)
    except FileNotFoundError as error:
        raise TileProbeError(f"there is no trace at {path}") from error
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TileProbeError(f"{path} is {_diagnosis(path)}") from error
    if KEY not in pairs:
        raise TileProbeError(f"{path} is a Parquet file, but not one that TileProbe wrote")
    try:
        head = json.loads(pairs[KEY])
    except ValueError as error:
        raise TileProbeError(f"{path} is a damaged trace: its description is not JSON") from error
    if not isinstance(head, dict) or not isinstance(head.get("version", 0), int):
        raise TileProbeError(f"{path} is a damaged trace: its description is not that of a trace")
    if head.get("format") != "tileprobe-trace":
        raise TileProbeError(f"{path} is a {head.get('format')!r} file of TileProbe, not a trace")
    if head.get("version", 0) > VERSION:
        raise TileProbeError(
            f"{path} has trace version {head['version']}, written by TileProbe {head.get('writer')}; "
            f"this is TileProbe {__version__}, which reads up to version {VERSION}: please upgrade"
        )
    return head


def _diagnosis(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError as error:
        return f"not readable: {error.strerror}"
    if not magic:
        return "empty, not a trace"
    if magic == b"PAR1":
        return (
            "truncated or damaged: it begins like a trace but does not end like one; copy or record it again"
        )
    return "not a TileProbe trace (a trace is a Parquet file)"
