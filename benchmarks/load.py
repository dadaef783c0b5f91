"""Can a report be trusted on a loaded machine: region shares of twelve kernels, quiet and beside busy processes.

Each kernel is profiled with the default tool, alone and beside as many busy processes as there are cores, in turns. A
loaded report is held against the quiet ones before and after it: how far a region's share lies outside of what these
two say. The goal: within 2 percentage points, or the report says that its shares cannot be trusted. How far two quiet
reports are apart, a few seconds between them, is what the machine does by itself (a store to memory took 0.5 us for
seconds, then 2 us for seconds, with nobody else there). Beside it stand the shares as sums over all recorded intervals
would have them, with no launch left out and nothing taken out: what the correction is worth. On half of the kernels
nothing was tuned (`_load_kernels.py`).

Usage: python -m benchmarks.load [--seconds 2] [--rounds 3] [--busy 2] [--kernel NAME]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import polars as pl

import tileprobe
from benchmarks._common import save
from benchmarks._load_kernels import works as untuned
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


Shares = dict[str, float]  # by name of region
Found = dict[str, Shares]  # by name of kernel


def shares(trace: Trace) -> Found:
    """The self time's share of each region, as the report has it."""
    found: Found = {}
    for kernel in trace.kernels:
        frame = region_tree(trace, kernel)
        whole = frame.filter(pl.col("depth") == 0)["total_ns"].sum()
        mine = found.setdefault(kernel.name, {})
        for row in frame.iter_rows(named=True):
            mine[row["name"]] = mine.get(row["name"], 0.0) + (row["self_ns"] / whole if whole else 0.0)
    return found


def untouched(trace: Trace) -> Trace:
    """The same trace with everything in it that was taken or left out."""
    plain = pl.lit(0.0, pl.Float32).alias("taken_ns")
    launches = [replace(launch, preempted_ns=None) for launch in trace.launches]
    return replace(trace, frame=trace.intervals.with_columns(plain), launches=launches)


def beyond(around: list[Shares], found: Shares) -> float:
    """How far the farthest share lies outside of what the reports around it say."""
    off = 0.0
    for name in {*found, *(name for one in around for name in one)}:
        share, known = found.get(name, 0.0), [one.get(name, 0.0) for one in around]
        off = max(off, min(known) - share, share - max(known))
    return off


def farthest(around: list[Found], trace: Trace) -> float:
    found = shares(trace)
    return max(
        (beyond([one.get(name, {}) for one in around], mine) for name, mine in found.items()), default=0.0
    )


def judged(around: list[Found], trace: Trace) -> list[dict[str, Any]]:
    """For each kernel of a trace how far its shares are off, and what the report says of them."""
    found = shares(trace)
    rows = []
    for kernel in trace.kernels:
        said = interrupted(trace, kernel)
        off = beyond([one.get(kernel.name, {}) for one in around], found[kernel.name])
        rows.append({"off": off, "trusted": said.trusted, **asdict(said)})
    return rows


def measure(name: str, work: Callable[[], Any], seconds: float, rounds: int, count: int) -> dict[str, Any]:
    profiled(work, 0.0)  # compiles the variants
    quiet, loaded = [profiled(work, seconds)], []
    for _ in range(rounds):
        with busy(count):
            loaded.append(profiled(work, seconds))
        quiet.append(profiled(work, seconds))
    alone = [shares(trace) for trace in quiet]
    pairs = [alone[n : n + 2] for n in range(rounds)]
    found = [row for around, trace in zip(pairs, loaded) for row in judged(around, trace)]
    again = [row for before, trace in zip(alone, quiet[1:]) for row in judged([before], trace)]
    costs = [overhead(trace, trace.kernels[0]) for trace in loaded]
    sums = [accounted(trace, trace.kernels[0]) for trace in loaded]
    return {
        "kernel": name,
        "quiet": max(row["off"] for row in again),
        "loaded": max(row["off"] for row in found),
        "untouched": max(farthest(around, untouched(trace)) for around, trace in zip(pairs, loaded)),
        "wrong": sum(row["off"] > GOAL and row["trusted"] for row in found),
        "said": sum(not row["trusted"] for row in found),
        "needlessly": sum(row["off"] <= GOAL and not row["trusted"] for row in found),
        "reports": len(found),
        "launches": int(np.median([sum(work.ran for work in trace.works) for trace in loaded])),
        "left_out": int(np.median([row["launches"] for row in found])),
        "interrupted_percent": float(np.median([row["percent"] for row in found])),
        "doubtful_percent": float(max(row["doubtful_percent"] for row in found)),
        "error_points": float(max(row["error_points"] for row in found)),
        "quiet_error_points": float(max(row["error_points"] for row in again)),
        "overhead_measurable": sum(cost.measurable for cost in costs),
        "overhead_percent": [cost.percent for cost in costs],
        "accounted_percent": float(np.median([one.percent for one in sums if one is not None])),
    }


def verdict(row: dict[str, Any]) -> str:
    if row["wrong"]:
        return "WRONG"
    if row["loaded"] <= GOAL:
        return "within 2 points" + (
            f", {row['needlessly']} of {row['reports']} not trusted" if row["needlessly"] else ""
        )
    return f"said not to be trusted, {row['said']} of {row['reports']}"


def show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=max(150, Console().width))
    table = Table(
        title="how far a region's share is outside of the quiet reports around it, in percentage points",
        title_justify="left",
    )
    titles = ("kernel", "quiet to quiet", "loaded", "nothing left out", "left out", "interrupted", "in doubt")
    for title in (*titles, "interval", "launches", "verdict"):
        table.add_column(title, justify="left" if title in ("kernel", "verdict") else "right")
    for row in rows:
        cells = [f"{100 * row['quiet']:.2f} ±{row['quiet_error_points']:.1f}"]
        cells += [f"{100 * row[key]:.2f}" for key in ("loaded", "untouched")] + [f"{row['left_out']:,}"]
        more = [f"{row[key]:.1f} %" for key in ("interrupted_percent", "doubtful_percent")]
        more += [f"±{row['error_points']:.1f}", f"{row['launches']:,}"]
        table.add_row(row["kernel"], *cells, *more, verdict(row))
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each kernel, side and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kernel", help="only this one")
    parser.add_argument(
        "--busy", type=int, default=os.cpu_count() or 2, help="processes that load the machine"
    )
    args = parser.parse_args()
    tileprobe.use("cpu")
    kernels = {**works(), **untuned()}
    chosen = {name: work for name, work in kernels.items() if args.kernel in (None, name)}
    rows = [measure(name, work, args.seconds, args.rounds, args.busy) for name, work in chosen.items()]
    show(rows)
    ok = not any(row["wrong"] for row in rows)
    said, reports = sum(row["said"] for row in rows), sum(row["reports"] for row in rows)
    print(
        f"within 2 points or said not to be trusted: {'yes' if ok else 'no'} ({said} of {reports} reports said so, "
        f"{sum(row['needlessly'] for row in rows)} of these were within 2 points)"
    )
    save("load", {"kernels": rows, "goals": [{"points": 100 * GOAL, "busy": args.busy, "ok": ok}]})
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
