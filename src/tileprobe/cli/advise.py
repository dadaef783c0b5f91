"""Try what may make a kernel faster without an edit, and say what it brought, and what did not help.

Other numbers of stages and warps, sizes of blocks that are constexpr arguments, and orders of programs (by a pass over
the kernel's IR): each is run, on the CPU by turns with the kernel as it is, on simulated GPUs (--target sim:a100)
exactly. Results must stay the same within rounding. The program's own launches are not touched.

Examples:
  tileprobe advise script.py
  tileprobe advise --target sim:h100 --seconds 120 script.py
  tileprobe advise --json advice.json script.py
"""

from __future__ import annotations

import argparse
from typing import Any

from tileprobe.cli._trying import add_shared, tried, written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tileprobe advise [options] script.py [args] | -m module [args] | -- command [args]"
    add_shared(parser, 60.0, "for the experiments of each kernel")


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tileprobe.session.advising import advise

    code, found = tried(args, lambda launch, target, progress: advise(launch, target, args.seconds, progress))
    shown = written(args, [asdict(each) for each in found], lambda console: _show(console, found))
    return code or shown


def _show(console: Any, found: list[Any]) -> None:
    from tileprobe.tools.words import duration

    for each in found:
        console.print(f"{each.kernel}  {duration(each.took_ns)} a launch", style="bold", highlight=False)
        if each.outcomes:
            console.print(_outcomes(each.outcomes, console.width))
        elif not each.untried:
            console.print("there is nothing that could be changed without an edit")
        for row in each.outcomes:
            if row.verdict == "helps" and row.how:
                console.print(f"{_changes(row)}: {row.how}", markup=False, highlight=False)
        if each.untried:
            console.print(f"no time was left for {len(each.untried)} more; --seconds gives more")
        if each.edits:
            console.print("what the kernel shows, and only an edit can change:")
        for edit in each.edits:
            console.print(f"  • {edit['evidence']}", markup=False, highlight=False)
        console.print()


def _outcomes(outcomes: list[Any], width: int) -> Any:
    """A line each: where the screen is narrow it is the reason that is cut."""
    from rich.table import Table
    from rich.text import Text

    from tileprobe.tools.words import percent

    titles = ("tried", "", "gain", "", "why")
    rows: list[tuple[str, ...]] = []
    for row in outcomes:
        gain = "" if row.gain is None else percent(row.gain)
        error = f"±{100 * row.error:.1f}" if row.error else ""
        rows.append((_changes(row), row.verdict, gain, error, _line(row.why or row.because)))
    left = width - sum(2 + max(len(row[n]) for row in (titles, *rows)) for n in range(len(titles) - 1))
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title == "gain" else "left", no_wrap=True)
    for *first, why in rows:
        table.add_row(*map(Text, (*first, why if len(why) <= left else why[: max(0, left - 4)] + " ...")))
    return table


def _changes(row: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.changes.items())


def _line(text: str) -> str:
    """One line of what may be many; --json has them all."""
    first, *more = text.splitlines() or [""]
    return f"{first} ..." if more else first
