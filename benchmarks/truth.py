"""Does a tool name the cause, and how large it is: kernels and machines built so that the answer is known.

Each case plants something (a load that nothing hides, a slow program in the tail, a barrier released late), runs the
tool that should find it, and gives back pairs of planted and found. Cases live in files beside this one, `_truth_*.py`,
each with a tuple `CASES`. The goal is 5 % on simulated machines and hand-built traces, 10 % on the CPU. Where a CPU
gave a case fewer cores than it needs, something else ran than was planted: that is neither right nor wrong.

Usage: python -m benchmarks.truth [--case WORD] [--list]
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
import time
from dataclasses import asdict
from importlib import import_module
from typing import Any

import benchmarks
from benchmarks._common import save
from benchmarks._truth import Case, Pair


def cases() -> list[Case]:
    """Of all files of cases, in the order of their names."""
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith("_truth_"))
    return [case for name in names for case in import_module(f"benchmarks.{name}").CASES]


def tried(case: Case) -> list[dict[str, Any]]:
    """The pairs of a case; one that failed is a row that says why."""
    begun = time.perf_counter()
    try:
        pairs, why = case.run(), ""
    except Exception as error:  # the other cases are still run
        pairs, why = [Pair("", 0.0, float("nan"), "")], f"{type(error).__name__}: {error}"
    rows = [
        {**asdict(pair), "case": case.name, "tool": case.tool, "machine": case.machine, "limit": case.limit}
        for pair in pairs
    ]
    for row, pair in zip(rows, pairs):
        row |= {"error": pair.error, "ok": not why and pair.told and pair.error <= case.limit, "why": why}
    rows[-1]["seconds"] = time.perf_counter() - begun
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="planted against found", title_justify="left")
    for title in ("case", "tool", "machine", "what", "planted", "found", "error", "goal", "ok"):
        table.add_column(title, justify="right" if title in ("planted", "found", "error", "goal") else "left")
    last = "", ""
    for row in rows:
        head = (
            ("", "", "")
            if (row["case"], row["machine"]) == last
            else tuple(map(str, (row["case"], row["tool"], row["machine"])))
        )
        last = row["case"], row["machine"]
        table.add_row(
            *head,
            row["why"] or row["what"],
            f"{row['planted']:,.6g} {row['unit']}",
            f"{row['found']:,.6g} {row['unit']}",
            f"{100 * row['error']:.2f} %",
            f"{100 * row['limit']:g} %",
            "yes" if row["ok"] else "[red]no[/red]" if row["told"] else "not planted",
        )
    Console(width=max(150, Console().width)).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", metavar="WORD", help="only cases with this in their name, tool or machine")
    parser.add_argument("--list", action="store_true", help="say which cases there are")
    args = parser.parse_args()
    word = args.case or ""
    chosen = [case for case in cases() if any(word in text for text in (case.name, case.tool, case.machine))]
    if args.list or not chosen:
        for case in chosen or cases():
            print(f"{case.tool:<14} {case.machine:<12} {case.name}")
        return 0 if chosen else 2
    rows = [row for case in chosen for row in tried(case)]
    show(rows)
    right = sum(row["ok"] for row in rows)
    untold = sum(not row["told"] for row in rows)
    print(f"{right} of {len(rows)} figures are within their goals, in {len(chosen)} cases", end="")
    print(f"; {untold} could not be planted: the system gave its threads too few cores" if untold else "")
    save("truth", {"pairs": rows})
    return 0 if right + untold == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
