"""A trace on disk: one Parquet file, the side tables as JSON in its key-value metadata.

`write` takes a Trace's parts and writes the file whole or not at all; `read` gives them back, or a
`TileProbeError` that says what is wrong with the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from tileprobe import __version__
from tileprobe.errors import TileProbeError
from tileprobe.trace.model import COLUMNS, Kernel, Launch, Region, Unit, from_json, to_json

KEY = "tileprobe"
VERSION = 1  # raise it when an old reader would misread a new file
TABLES: dict[str, type] = {"kernels": Kernel, "launches": Launch, "regions": Region, "units": Unit}


def write(
    path: str | os.PathLike[str], frame: pl.LazyFrame, tables: dict[str, list[Any]], meta: dict
) -> None:
    """Streams `frame` into a temporary file beside `path`, then moves it there."""
    path = Path(path)
    head = {"format": "tileprobe-trace", "version": VERSION, "writer": __version__, "meta": meta}
    head |= {name: [to_json(row) for row in tables[name]] for name in TABLES}
    text = json.dumps(head, separators=(",", ":"))
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise TileProbeError(f"cannot write the trace to {path}: {error.strerror}") from error
    os.close(handle)
    try:
        frame.sink_parquet(temporary, metadata={KEY: text}, compression="zstd", compression_level=1)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes files only their owner can read
        os.replace(temporary, path)
    except (OSError, pl.exceptions.PolarsError) as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise TileProbeError(f"cannot write the trace to {path}: {error}") from error
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read(path: str | os.PathLike[str]) -> tuple[pl.LazyFrame, dict[str, list[Any]], dict[str, Any]]:
    """The intervals (not yet read), the side tables and the metadata of the trace at `path`."""
    path = Path(path)
    head = _head(path)
    tables = {name: [from_json(kind, row) for row in head.get(name, [])] for name, kind in TABLES.items()}
    frame = pl.scan_parquet(path)
    missing = [name for name in COLUMNS if name not in frame.collect_schema()]
    if missing:
        raise TileProbeError(
            f"{path} is a TileProbe trace without the column {missing[0]!r}; record it again"
        )
    return frame.select(list(COLUMNS)), tables, head.get("meta", {})


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
    if head.get("format") != "tileprobe-trace":
        raise TileProbeError(f"{path} is a {head.get('format')!r} file of TileProbe, not a trace")
    if head["version"] > VERSION:
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
