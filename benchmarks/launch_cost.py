"""What a session costs a launch of 256 programs in Python: with every program recorded, and by default.

Sides take turns, a session of 200 launches each. `session` is the time that the session itself spent around a launch,
as it is kept with every work; `call` is the whole call by the user's clock, of which that is a part: the rest of the
difference is the records, threads that fell asleep in between, and colder caches. Medians in microseconds, and the
tenth that was quickest beside them. The goal is less than 50 us.

    python -m benchmarks.launch_cost
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import triton
import triton.language as tl

import tileprobe
from benchmarks._common import save

GOAL_US, PROGRAMS, BLOCK, A_ROUND = 50.0, 256, 64, 200
SIDES: dict[str, dict[str, Any] | None] = {
    "no session": None,
    "all programs": {"alternate": False, "programs": "all", "total_mb": 1024.0},
    "default": {},
}


@triton.jit
def straight(x, out, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * by)


@triton.jit
def looped(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += tl.exp(tl.load(x + at) * 0.001) * i
    tl.store(out + at, total)


def works() -> dict[str, Callable[[], Any]]:
    x, out = (tileprobe.array(np.zeros(PROGRAMS * BLOCK, np.float32)) for _ in range(2))
    return {
        "no loop": lambda: straight[(PROGRAMS,)](x, out, 2.0, BLOCK=BLOCK),
        "16 iterations": lambda: looped[(PROGRAMS,)](x, out, 16, BLOCK=BLOCK),
    }


def measure(work: Callable[[], Any], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Times of each side in microseconds: whole calls, and what the session took of those with records."""
    found: dict[str, dict[str, list[float]]] = {name: {"call": [], "session": []} for name in SIDES}
    work()
    for turn in range(rounds + 1):
        for name, options in SIDES.items():
            session = None if options is None else tileprobe.profile(seed=turn, **options)
            with session or nullcontext():
                work()
                calls = [_call(work) for _ in range(A_ROUND)]
            if not turn:
                continue  # compiles and warms up
            found[name]["call"] += calls
            if session is not None:
                runs = [run for each in session.works() for _, run in each.runs if run.probed]
                found[name]["session"] += [run.session_ns / 1e3 for run in runs[1:]]
    return found


def _call(work: Callable[[], Any]) -> float:
    began = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - began) / 1e3


def rows(rounds: int) -> list[dict[str, Any]]:
    found = []
    for name, work in works().items():
        times = measure(work, rounds)
        plain = float(np.median(times["no session"]["call"]))
        for side, mine in times.items():
            row = {"kernel": name, "side": side, "call_us": round(float(np.median(mine["call"])), 1)}
            row["call_added_us"] = round(row["call_us"] - plain, 1)
            if mine["session"]:
                row["session_us"] = round(float(np.median(mine["session"])), 1)
                row["session_us_p10"] = round(float(np.quantile(mine["session"], 0.1)), 1)
                row["ok"] = row["session_us"] < GOAL_US
            found.append(row)
    return found


def show(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"a launch of {PROGRAMS} programs, us (goal: session < {GOAL_US:g})", title_justify="left"
    )
    columns = ("kernel", "side", "call_us", "call_added_us", "session_us", "session_us_p10", "ok")
    for column in columns:
        table.add_column(column, justify="left" if column in ("kernel", "side") else "right")
    for row in found:
        table.add_row(*(str(row.get(column, "")) for column in columns))
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    with tileprobe.use("cpu"):
        found = rows(args.rounds)
    show(found)
    print(save("launch_cost", {"launches": found}))


if __name__ == "__main__":
    main()
