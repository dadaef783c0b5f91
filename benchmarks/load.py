"""Can a report be trusted on a loaded machine: region shares of six kernels, quiet and beside busy processes.

Each kernel is profiled with the default tool, first alone, then beside as many busy processes as there are cores, in
turns. The largest difference of a region's share is held against the goal: within 2 percentage points, or the report
says that its shares cannot be trusted. Beside it stand the shares as sums over all intervals would have them, with
nothing taken out: what the correction is worth.

Usage: python -m benchmarks.load [--seconds 2] [--rounds 3] [--busy 2]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

import tileprobe
from benchmarks._common import save
from benchmarks.overhead import works
from tileprobe.tools.accounting import accounted, interrupted
from tileprobe.tools.overhead import overhead
from tileprobe.tools.regions import region_tree
from tileprobe.trace import Trace

GOAL = 0.02  # of the kernel's time
LEAST = 40  # launches


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but run."""
    children = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.2)
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def profiled(work: Callable[[], Any], seconds: float) -> Trace:
    with tileprobe.profile() as session:
        end, count = time.monotonic() + seconds, 0
        while count < LEAST or time.monotonic() < end:
            work()
            count += 1
    return session.trace


def shares(trace: Trace) -> dict[str, float]:
    """By name of region and kernel: the self time's share, as the report has it."""
    found: dict[str, float] = {}
    for kernel in trace.kernels:
        frame = region_tree(trace, kernel)
        whole = frame.filter(pl.col("depth") == 0)["total_ns"].sum()
        for row in frame.iter_rows(named=True):
            found[f"{kernel.name}: {row['name']}"] = row["self_ns"] / whole if whole else 0.0
    return found


def untouched(trace: Trace) -> Trace:
    """The same trace with everything in it that was taken out."""
    plain = pl.lit(0.0, pl.Float32).alias("taken_ns")
    return tileprobe.Trace(trace.intervals.with_columns(plain), *_rest(trace))


def _rest(trace: Trace) -> tuple[Any, ...]:
    return trace.kernels, trace.launches, trace.regions, trace.units, trace.meta


def difference(a: dict[str, float], b: dict[str, float]) -> float:
    return max((abs(a.get(name, 0.0) - b.get(name, 0.0)) for name in {*a, *b}), default=0.0)


def measure(name: str, work: Callable[[], Any], seconds: float, rounds: int, count: int) -> dict[str, Any]:
    profiled(work, 0.0)  # compiles the variants
    quiet, loaded = [], []
    for _ in range(rounds):
        quiet.append(profiled(work, seconds))
        with busy(count):
            loaded.append(profiled(work, seconds))
    still = [shares(trace) for trace in quiet]
    base = {key: float(np.median([one.get(key, 0.0) for one in still])) for key in still[0]}
    found = [interrupted(trace, trace.kernels[0]) for trace in loaded]
    costs = [overhead(trace, trace.kernels[0]) for trace in loaded]
    sums = [accounted(trace, trace.kernels[0]) for trace in loaded]
    return {
        "kernel": name,
        "quiet": max(difference(base, one) for one in still),
        "loaded": max(difference(base, shares(trace)) for trace in loaded),
        "untouched": max(difference(base, shares(untouched(trace))) for trace in loaded),
        "launches": int(np.median([sum(work.ran for work in trace.works) for trace in loaded])),
        "interrupted_percent": float(np.median([one.percent for one in found])),
        "doubtful_percent": float(max(one.doubtful_percent for one in found)),
        "error_points": float(max(one.error_points for one in found)),
        "trusted": all(one.trusted for one in found),
        "overhead_measurable": sum(cost.measurable for cost in costs),
        "overhead_percent": [cost.percent for cost in costs],
        "accounted_percent": float(np.median([one.percent for one in sums if one is not None])),
    }


def verdict(row: dict[str, Any]) -> str:
    if row["loaded"] <= GOAL:
        return "within 2 points"
    return "said not to be trusted" if not row["trusted"] else "WRONG"


def show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=max(120, Console().width))
    table = Table(title="largest change of a region's share, in percentage points", title_justify="left")
    titles = (
        "kernel",
        "quiet again",
        "loaded",
        "nothing taken out",
        "interrupted",
        "in doubt",
        "interval",
        "launches",
    )
    for title in (*titles, "verdict"):
        table.add_column(title, justify="left" if title in ("kernel", "verdict") else "right")
    for row in rows:
        cells = [f"{100 * row[key]:.2f}" for key in ("quiet", "loaded", "untouched")]
        more = [f"{row[key]:.1f} %" for key in ("interrupted_percent", "doubtful_percent")]
        more += [f"±{row['error_points']:.1f}", f"{row['launches']:,}"]
        table.add_row(row["kernel"], *cells, *more, verdict(row))
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each kernel, side and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--busy", type=int, default=os.cpu_count() or 2, help="processes that load the machine"
    )
    args = parser.parse_args()
    tileprobe.use("cpu")
    rows = [measure(name, work, args.seconds, args.rounds, args.busy) for name, work in works().items()]
    show(rows)
    ok = all(verdict(row) != "WRONG" for row in rows)
    said = sum(not row["trusted"] for row in rows)
    print(f"within 2 points or said not to be trusted: {'yes' if ok else 'no'} ({said} said so)")
    save("load", {"kernels": rows, "goals": [{"points": 100 * GOAL, "busy": args.busy, "ok": ok}]})
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
