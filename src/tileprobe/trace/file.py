"""A trace on disk: one Parquet file, the side tables as JSON in its key-value metadata.

Its rows are the intervals. A trace with edges or counters has their rows behind them, in columns of their own
(`edge.kind`, `counter.name`, ...), and a column `table` that tells the three apart. `write` writes the file whole or
not at all; `read` gives the parts of a Trace back, or a `TileProbeError` that says what is wrong with the file.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tileprobe import __version__
from tileprobe.errors import TileProbeError
from tileprobe.files import replacing
from tileprobe.trace import checksum
from tileprobe.trace.check import Damaged, check_description, check_rows, check_table
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
_SINCE = {"stream": 0, "weight": 1.0, "fit": 1.0, "taken_ns": 0.0, "probes_ns": 0.0}


def write(path: str | os.PathLike[str], trace: Trace) -> None:
    """Streams the tables into one file."""
    rows, version = _rows(trace)
    head = {
        "format": "tileprobe-trace",
        "version": version,
        "writer": __version__,
        "meta": trace.meta,
    }
    head |= {name: [to_json(row) for row in getattr(trace, name)] for name in SIDE}
    text = json.dumps(head, separators=(",", ":"))
    try:
        with replacing(path) as temporary:
            with _sink(temporary) as sink:
                rows.sink_parquet(
                    sink,
                    metadata={KEY: text, checksum.KEY: checksum.PLACE},
                    compression="zstd",
                    compression_level=1,
                )
            checksum.seal(temporary)
    except pl.exceptions.PolarsError as error:
        raise TileProbeError(f"cannot write the trace to {os.fspath(path)}: {error}") from error


@contextlib.contextmanager
def _sink(path: Path) -> Iterator[Any]:
    """The file as Polars can write it: its names are text, and a name may be bytes that are none."""
    if _is_text(path):
        yield path
        return
    with open(path, "wb") as file:
        yield file


def _source(path: Path) -> Any:
    return path if _is_text(path) else BytesIO(path.read_bytes())


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


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
    """The parts of the trace at `path` by the names `Trace` has for them. Its tables are looked through once, and read
    when they are needed."""
    path = Path(path)
    head = _head(path)
    try:
        parts = _description(head) | _tables(path)
        _check(parts)
    except Damaged as error:
        raise TileProbeError(f"{path} is a damaged trace: {error}") from error
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise TileProbeError(f"{path} is {_diagnosis(path)}") from error
    return parts


def _description(head: dict[str, Any]) -> dict[str, Any]:
    """The side tables."""
    for name, kind in SIDE.items():
        check_rows(kind, head.get(name, []))
    try:
        parts: dict[str, Any] = {
            name: [from_json(kind, row) for row in head.get(name, [])] for name, kind in SIDE.items()
        }
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise Damaged(f"its description cannot be read: {error}") from error
    parts["meta"] = head.get("meta", {})
    check_description(parts)
    return parts


def _tables(path: Path) -> dict[str, Any]:
    # filters are not applied while pages are read: what was looked through once is read the same way again
    file = pl.scan_parquet(_source(path), parallel="row_groups")
    schema = file.collect_schema()
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
    if DISCRIMINATOR not in schema:
        return {"frame": file.select(_typed(schema, COLUMNS))}
    return {
        "frame": file.filter(pl.col("launch").is_not_null()).select(_typed(schema, COLUMNS)),
        "edge_frame": _table(file, schema, "edge", EDGES),
        "counter_frame": _table(file, schema, "counter", COUNTERS),
    }


def _typed(schema: pl.Schema, columns: dict[str, Any], prefix: str = "") -> list[pl.Expr]:
    """The columns by their names, as the types they should have."""
    return [
        (pl.col(place) if schema.get(place, dtype) == dtype else pl.col(place).cast(dtype)).alias(name)
        for name, dtype in columns.items()
        for place in (f"{prefix}{name}",)
    ]


def _check(parts: dict[str, Any]) -> None:
    """The tables against the description."""
    ids = {name: [row.id for row in parts[name]] for name in ("launches", "regions", "units")}
    check_table(parts["frame"], COLUMNS, ids, {"value"})
    if "edge_frame" in parts:
        check_table(parts["edge_frame"], EDGES, ids, {"from_region", "to_region"})
        check_table(parts["counter_frame"], COUNTERS, ids, {"instruction"})


def _table(file: pl.LazyFrame, schema: pl.Schema, table: str, columns: dict[str, Any]) -> pl.LazyFrame:
    """The rows of one table. Every row of it has a launch, and no row of the others has this one: Polars knows
    from the file's statistics where nulls are and reads those parts only, which it does not do for an Enum."""
    mine = file.filter(pl.col(f"{table}.launch").is_not_null())
    return mine.select(_typed(schema, columns, f"{table}."))


def _head(path: Path) -> dict[str, Any]:
    if path.is_dir():
        raise TileProbeError(f"{path} is a folder; a trace is one file, as `tileprobe run -o FILE` writes it")
    try:
        if path.is_file() and checksum.broken(path):
            raise TileProbeError(
                f"{path} is truncated or damaged: its checksum is not that of its bytes; copy or record it again"
            )
        pairs = pl.read_parquet_metadata(_source(path))
    except FileNotFoundError as error:
        raise TileProbeError(f"there is no trace at {path}") from error
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeError) as error:
        raise TileProbeError(f"{path} is {_diagnosis(path)}") from error
    if KEY not in pairs:
        raise TileProbeError(f"{path} is a Parquet file, but not one that TileProbe wrote")
    try:
        head = json.loads(pairs[KEY])
    except ValueError as error:
        raise TileProbeError(f"{path} is a damaged trace: its description is not JSON") from error
    if not _is_unicode(head):
        raise TileProbeError(f"{path} is a damaged trace: a text in its description is none")
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


def _is_unicode(head: Any) -> bool:
    """JSON may escape halves of characters, which nothing can print."""
    try:
        json.dumps(head, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


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
