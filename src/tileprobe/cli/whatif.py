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
from tileprobe.errors import TileProbeError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tileprobe whatif [options] script.py [args] | -m module [args] | -- command [args]"
    parser.add_argument(
        "--region",
        default="",
        metavar="WORD",
        help="only regions (on simulated GPUs: parts of the machine, and lines) with this in their name; 31-34: lines",
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
    from tileprobe.session.delaying import ask
    from tileprobe.session.scaling import simulate

    if not args.scale > 0:
        raise TileProbeError(f"--scale takes a number above 0 (2: twice as fast), not {args.scale:g}")

    def question(launch: Any, target: Any, progress: Any) -> Any:
        if hasattr(target, "scales"):
            return simulate(launch, target, args.region, args.scale, progress)
        return ask(launch, target, args.region, args.seconds, progress)

    code, found = tried(args, question)
    shown = written(args, as_data(found), lambda console: _show(console, found))
    return code or shown


def as_data(found: list[Any]) -> list[dict[str, Any]]:
    """Answers for `--json`, with all that is printed of them."""
    from dataclasses import asdict

    data = [asdict(each) for each in found]
    for each, asked in zip(data, found):
        for row, region in zip(each.get("regions", ()), getattr(asked, "regions", ())):
            slope = region.slope
            row["slope"] |= {"told": slope.told, "low": slope.low, "high": slope.high}
    return data


def _show(console: Any, found: list[Any]) -> None:
    from tileprobe.session.delaying import Asked
    from tileprobe.tools.words import duration

    for each in found:
        console.print(f"{each.kernel}  {duration(each.took_ns)} a launch", style="bold", highlight=False)
        if isinstance(each, Asked):
            console.print(_cores(each), highlight=False)
            _regions(console, each)
        else:
            _machines(console, each)


def _regions(console: Any, asked: Any) -> None:
    table = _table("region", "slope", "", "its time on a core", "won without it", "")
    for row in asked.regions:
        table.add_row(row.name, *_slope(row))
    console.print(table)


def _machines(console: Any, asked: Any) -> None:
    from tileprobe.tools.words import duration, percent

    table = _table(f"{asked.times:g} times faster", "takes", "gain")
    for row in asked.scaled:
        table.add_row(row.what, duration(row.ns), percent(row.gain))
    lines = _table("line", "slope", "a warp is there for", f"{asked.times:g} times faster", "won without it")
    for row in asked.lines:
        gains = (percent(row.faster), percent(row.gain))
        lines.add_row(row.line, f"{row.slope:.2f}", duration(row.ns), *gains)
    if asked.together is not None and asked.together_faster is not None:
        lines.add_row("all of these", "", "", percent(asked.together_faster), percent(asked.together))
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


def _cores(asked: Any) -> str:
    from tileprobe.tools.slopes import ALIKE

    many = "core works" if f"{asked.cores:.1f}" == "1.0" else "cores share what its programs do"
    text = f"on average {asked.cores:.1f} {many}"
    if asked.cores_high > ALIKE * asked.cores_low:
        text += f", from launch to launch {asked.cores_low:.1f} to {asked.cores_high:.1f}"
    lost = sum(row.rounds - row.slope.rounds for row in asked.regions)
    if lost:
        text += f"; {lost} of {sum(row.rounds for row in asked.regions)} rounds had other cores from launch to launch, "
        text += "and do not count"
    return text


def _slope(row: Any) -> tuple[str, ...]:
    """A slope and a gain with what they lie between; where that is too wide, what can be said."""
    from tileprobe.tools.words import duration, percent

    slope = saved = ("cannot be told", "")
    if row.slope.told:
        slope = (f"{row.slope.value:.2f}", f"{row.slope.low:.2f} to {row.slope.high:.2f}")
    if row.saved.told:
        low, high = 100 * row.saved.low, 100 * row.saved.high
        saved = (percent(row.saved.value), f"{low:.1f} to {high:.1f}")
    return (*slope, duration(row.ns / row.cores), *saved)
