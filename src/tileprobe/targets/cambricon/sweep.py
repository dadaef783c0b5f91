"""`tileprobe llm sweep`: every combination of some parameters, as a table and a plot.

How points run, and what becomes of them, is the business of `tileprobe.sweeps`; here is what is of language models.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.points import grid, parse_axes
from tileprobe.sweeps.run import running
from tileprobe.sweeps.table import frame_of, say_failed, write_table
from tileprobe.targets.cambricon.plot import plot_sweep
from tileprobe.targets.cambricon.points import columns, fixed_of, value_of, work

KIND = "tileprobe llm sweep"
SHOWN = 60  # rows of a table in the terminal


def run_sweep_command(args: argparse.Namespace) -> int:
    """`tileprobe llm sweep`."""
    axes = parse_axes(args.vary, "--vary", value_of, "context=100,1000")
    fixed = fixed_of(args)
    if "model" not in fixed and "model" not in axes:
        raise TileProbeError("say which model: --model opt-6.7b, or --vary model=opt-6.7b,opt-13b")
    count = math.prod(map(len, axes.values()))
    with running("sweep", args, work(), KIND) as sweep:
        sweep.run(grid(fixed, axes), count)
        frame = frame_of(sweep.entries(), columns)
    path = write_table(frame, Path(f"{args.out}.parquet"))
    print_table(frame, list(axes))
    failed = say_failed(frame, list(axes))
    picture = _picture(frame, args, axes)
    print(f"\n{path}: {frame.height:,} points{picture}")
    return 1 if failed == frame.height else 0


def _picture(frame: pl.DataFrame, args: argparse.Namespace, axes: dict[str, list[Any]]) -> str:
    if "tokens_per_s" not in frame.columns:  # not one point has a result
        return ""
    picture = plot_sweep(frame, list(axes), args.plot, Path(f"{args.out}.png"))
    return f"; plot in {picture}" if picture else "; no plot: pip install matplotlib"


def print_table(frame: pl.DataFrame, axes: list[str]) -> None:
    """The rows that have a result; of many the fastest."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    good = frame.filter(pl.col("error").is_null())
    if good.height > SHOWN:
        good = good.sort("tokens_per_s", descending=True).head(SHOWN)
        console.print(f"the {SHOWN} fastest of {frame.height:,} points", style="dim")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for n, name in enumerate((*axes, "tokens/s", "ms", "channels", "GB", "J", "alpha")):
        table.add_column(
            name, justify="left" if n < len(axes) else "right", header_style="dim", no_wrap=n < len(axes)
        )
    for row in good.to_dicts():
        table.add_row(*_cells(row, axes))
    if good.height:
        console.print(table, highlight=False)


def _cells(row: dict[str, Any], axes: Iterable[str]) -> list[str]:
    from rich.markup import escape

    return [
        *(escape(str(row[name])) for name in axes), f"{row['tokens_per_s']:.3g}", f"{row['latency_ms']:.2f}",
        f"{row['channel_use']:.1%}", f"{row['channel_gb_per_token']:.3f}", f"{row['joules_per_token']:.3f}",
        f"{row['alpha']:.3f}",
    ]  # fmt: skip
