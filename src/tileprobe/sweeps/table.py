"""Results as a table: a row for each point, its settings, its figures, and the reason where it has none."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from tileprobe.files import write_file
from tileprobe.sweeps.outcome import DONE

_ROWS = 20_000  # turned into columns at a time
_SHOWN = 10  # failed points that are named


def frame_of(
    entries: Iterable[dict[str, Any]], columns: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
) -> pl.DataFrame:
    """Entries of a ledger as a table. `columns` says what settings are in it."""
    rows, frames = (_row(entry, columns) for entry in entries), []
    while some := list(islice(rows, _ROWS)):
        frames.append(pl.DataFrame(some, infer_schema_length=None))
    if not frames:
        return pl.DataFrame(schema={"key": pl.String, "error": pl.String})
    return pl.concat(frames, how="diagonal_relaxed")


def _row(entry: dict[str, Any], columns: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    error = None if entry["outcome"] == DONE else entry["reason"]
    return {
        "key": entry["point"], "error": error, **columns(entry["settings"]), **entry.get("result", {}),
        "seconds": entry["seconds"], "attempts": entry["attempts"],
    }  # fmt: skip


def write_table(frame: pl.DataFrame, path: Path) -> Path:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    write_file(path, buffer.getvalue())
    return path


def print_table(
    frame: pl.DataFrame, axes: Sequence[str], figures: Sequence[str], names: Mapping[str, str] | None = None,
    best: tuple[str, bool] | None = None, most: int = 60,
) -> None:  # fmt: skip
    """Settings and figures of the points that have a result, in the terminal. Of many only the best: by a column, and
    whether more is better."""
    from rich.console import Console
    from rich.markup import escape
    from rich.measure import Measurement
    from rich.table import Table

    console, good = Console(), frame.filter(pl.col("error").is_null())
    if good.height > most:
        by, more = best or (figures[0], False)
        good = good.sort(by, descending=more, nulls_last=True).head(most)
        console.print(
            f"{most} of {frame.height:,} points, by {(names or {}).get(by, by)}", style="dim", highlight=False
        )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for n, name in enumerate((*axes, *figures)):
        shown = escape((names or {}).get(name, name))
        table.add_column(
            shown, justify="left" if n < len(axes) else "right", header_style="dim", no_wrap=n < len(axes)
        )
    for row in good.iter_rows(named=True):
        table.add_row(*(escape(str(row[name])) for name in axes), *(_figure(row[name]) for name in figures))
    if good.height:
        # a table that is wider than the terminal goes on in the next line: no figure is cut short
        wide = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
        Console(width=max(console.width, wide)).print(table, highlight=False)


def _figure(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def say_failed(frame: pl.DataFrame, axes: Iterable[str]) -> int:
    """Names points that have no result, and why, on the standard error; how many there are."""
    failed = frame.filter(pl.col("error").is_not_null())
    for row in failed.head(_SHOWN).iter_rows(named=True):
        where = ", ".join(f"{name} {row[name]}" for name in axes)
        attempts = f" ({row['attempts']} attempts)" if row["attempts"] > 1 else ""
        _say(f"{where}: {row['error']}{attempts}")
    if failed.height:
        more = f", {_SHOWN} of them above; the table has all" if failed.height > _SHOWN else ""
        _say(f"{failed.height:,} of {frame.height:,} points failed{more}")
    return failed.height


def _say(text: str) -> None:
    shown = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    print(f"tileprobe: {shown}", file=sys.stderr)
