"""Is a kernel's total right: the time of a program as the report has it, against launches without probes.

Each kernel is profiled with the default tool on one thread. The truth are the launches of the same session that ran
without probes, drawn at random among the others: their duration over the number of their programs. Replay takes the
cost of records out of the recorded ones; `raw` is the time with them in it. What a program does before its first record
and behind its last (arguments, the constants of its loops: some tens of nanoseconds) is in the truth and not in the
report. The goal is a mean error under 5 %, and that a total lies within its 95 % interval, and 50 ns beside it, in nine
kernels of ten.

Usage: python -m benchmarks.totals [--seconds 1] [--kernel NAME]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

import tileprobe
from benchmarks._common import save
from benchmarks._load_kernels import works as untuned
from benchmarks._short_kernels import works as short
from benchmarks.overhead import works
from tileprobe.tools.regions import region_tree
from tileprobe.trace import Trace
from tileprobe.trace.stand_ins import undisturbed

MEAN, BESIDE_NS, WITHIN = 0.05, 50.0, 0.9
LEAST = 60  # launches


def profiled(work: Callable[[], Any], seconds: float) -> Trace:
    with tileprobe.profile() as session:
        end, count = time.monotonic() + seconds, 0
        while count < LEAST or time.monotonic() < end:
            work()
            count += 1
    return session.trace


def measured(name: str, work: Callable[[], Any], seconds: float) -> dict[str, Any]:
    profiled(work, 0.0)  # compiles the variants
    trace = profiled(work, seconds)
    kernel = max(
        trace.kernels, key=lambda one: sum(x.duration_ns or 0 for x in trace.kernel_launches(one.id))
    )
    launches = trace.kernel_launches(kernel.id)
    programs = math.prod(launches[0].grid)
    plain = [x.duration_ns or 0.0 for x in launches if not x.probed and undisturbed(x)]
    true = float(np.mean(plain)) / programs
    row = region_tree(trace, kernel).row(0, named=True)
    spans = trace.scan().filter((pl.col("region") == row["region"]) & (pl.col("taken_ns") == 0))
    lasted = ((pl.col("stop") - pl.col("start")) * pl.col("weight")).sum() / pl.col("weight").sum()
    raw = float(spans.select(lasted).collect().item()) * 1e9 / kernel.clock.hz
    found, high = row["total_ns"] / row["count"], (row["high_ns"] or math.inf) / row["count"]
    known = kernel.calibration
    return {
        "kernel": name,
        "true_ns": true,
        "raw_ns": raw,
        "reported_ns": found,
        "half_ns": high - found,
        "error": found / true - 1.0,
        "raw_error": raw / true - 1.0,
        "within": abs(found - true) <= high - found + BESIDE_NS,
        "dose_ticks": known.get("dose_ticks"),
        "place_ticks": known.get("cost_ticks"),
        "code_share": known.get("code_share", 1.0),
    }


def show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="a program's time, reported against launches without probes", title_justify="left")
    for title in (
        "kernel",
        "without probes",
        "raw",
        "reported",
        "a record by dose",
        "in place",
        "code",
        "verdict",
    ):
        table.add_column(title, justify="left" if title in ("kernel", "verdict") else "right")
    for row in rows:
        table.add_row(
            row["kernel"],
            f"{row['true_ns']:,.0f} ns",
            f"{100 * row['raw_error']:+.1f} %",
            f"{100 * row['error']:+.1f} ±{100 * row['half_ns'] / row['reported_ns']:.1f} %",
            f"{row['dose_ticks'] or 0:.1f} ticks",
            f"{row['place_ticks'] or 0:.1f}",
            f"{100 * (1 - row['code_share']):.1f} %",
            "" if row["within"] else "outside",
        )
    Console(width=max(120, Console().width)).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each kernel")
    parser.add_argument("--kernel", help="only this one")
    args = parser.parse_args()
    with tileprobe.use("cpu", threads=1):
        kernels = {**works(), **untuned(), **short()}
        del kernels["tiny"]  # four programs of 150 ns: what a thread does around them takes as long
        chosen = {name: work for name, work in kernels.items() if args.kernel in (None, name)}
        rows = [measured(name, work, args.seconds) for name, work in chosen.items()]
    show(rows)
    mean = float(np.mean([abs(row["error"]) for row in rows]))
    raw = float(np.mean([abs(row["raw_error"]) for row in rows]))
    within = float(np.mean([row["within"] for row in rows]))
    ok = mean < MEAN and within >= WITHIN
    print(
        f"mean error {100 * mean:.1f} % (raw {100 * raw:.1f}; goal: under {100 * MEAN:g}), {100 * within:.0f} % within "
        f"their intervals and {BESIDE_NS:g} ns (goal: {100 * WITHIN:g}): {'yes' if ok else 'no'}"
    )
    save("totals", {"kernels": rows, "goals": [{"mean": mean, "raw": raw, "within": within, "ok": ok}]})
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
