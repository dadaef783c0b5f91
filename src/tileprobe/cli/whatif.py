"""Say what would make a kernel faster: which regions, or what of a simulated machine, by trying.

On a CPU each region is delayed by a spin on the clock, a little, twice and three times as much: the slope of the
kernel's time is 1 where every delay shows and 0 where it is hidden. On simulated GPUs (--target sim:a100) the same
launch runs on machines that have one thing --scale times faster. The program's own launches are not touched.

Examples:
  tileprobe whatif script.py
  tileprobe whatif --region 'load @ 31' --seconds 20 script.py
  tileprobe whatif --target sim:a100 --scale 2 script.py
  tileprobe whatif --json - -m package.module
"""

from __future__ import annotations

import argparse
from typing import Any

from tileprobe.cli._trying import add_shared, tried, written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tileprobe whatif [options] script.py [args] | -m module [args] | -- command [args]"
    parser.add_argument(
        "--region",
        default="",
        metavar="WORD",
        help="only regions (on simulated GPUs: parts of the machine) with this in their name",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=2.0,
        metavar="K",
        help="on simulated GPUs: how many times faster (default: 2)",
    )
    add_shared(parser, 10.0, "for the launches of each kernel")


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tileprobe.session.delaying import ask
    from tileprobe.session.scaling import simulate

    def question(launch: Any, target: Any, progress: Any) -> Any:
        if hasattr(target, "scales"):
            return simulate(launch, target, args.region, args.scale, progress)
        return ask(launch, target, args.region, args.seconds, progress)

    code, found = tried(args, question)
    return written(args, [asdict(each) for each in found], lambda console: _show(console, found)) or code


def _show(console: Any, found: list[Any]) -> None:
    from tileprobe.session.delaying import Asked
    from tileprobe.tools.words import duration

    for each in found:
        console.print(f"{each.kernel}  {duration(each.took_ns)} a launch", style="bold", highlight=False)
        if isinstance(each, Asked):
            console.print(f"on average {each.cores:.1f} cores share its programs", highlight=False)
            _regions(console, each)
        else:
            _machines(console, each)


def _regions(console: Any, asked: Any) -> None:
    table = _table("region", "slope", "", "its time on a core", "won without it", "")
    for row in asked.regions:
        table.add_row(row.name, *_slope(row, asked.cores))
    console.print(table)


def _machines(console: Any, asked: Any) -> None:
    from tileprobe.tools.words import duration

    table = _table(f"{asked.times:g} times faster", "takes", "gain")
    for row in asked.scaled:
        table.add_row(row.what, duration(row.ns), f"{100 * row.gain:.1f} %")
    lines = _table("line", "slope", "a warp is there for")
    for row in asked.lines:
        lines.add_row(row.line, f"{row.slope:.2f}", duration(row.ns))
    for each in (table, lines):
        if each.row_count:
            console.print(each)


def _table(first: str, *titles: str) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for title in titles:
        table.add_column(title, justify="right")
    return table


def _slope(row: Any, cores: float) -> tuple[str, ...]:
    """A slope with its error; where that is too wide, what can be said."""
    from tileprobe.tools.words import duration

    slope = (
        (f"{row.slope.value:.2f}", f"±{row.slope.error:.2f}") if row.slope.told else ("cannot be told", "")
    )
    saved = ("cannot be told", "")
    if row.saved_error is not None:
        saved = (f"{100 * row.saved:.1f} %", f"±{100 * row.saved_error:.1f} %")
    return (*slope, duration(row.ns / cores), *saved)
