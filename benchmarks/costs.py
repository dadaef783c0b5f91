"""What one more operation adds to a stage, beside what the table of costs says (`targets/cpu/costs.py`).

A stage loads a tile that is in the first-level cache, applies an operation to it k times and stores it. `one more` is
what it takes longer with twelve than with four of them, by the operation and the element; `alone` is a stage with one
of them less a stage that only copies: beside loads and stores much is hidden, as in the stages that people write.
Launches of all lengths run in turns, in CPU time of one thread, and the fastest of each counts: others on the machine
make a launch longer and never shorter.

Usage: python -m benchmarks.costs [--rounds 60] [--only exp]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import triton
import triton.language as tl

import tileprobe
from benchmarks._common import save
from tileprobe.targets.cpu import costs, pool

BLOCK, PASSES = 1024, 64
UNIT_NS = 0.03  # the table's
TIMES = (0, 1, 4, 12)


@triton.jit
def stage(x_ptr, y_ptr, out_ptr, passes, K: tl.constexpr, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _ in range(passes):
        v = tl.load(x_ptr + at)
        y = tl.load(y_ptr + at)
        for k in tl.static_range(K):
            if OP == "add":
                v = v + y
            elif OP == "mul":
                v = v * y
            elif OP == "maximum":
                v = tl.maximum(v, y + k)
            elif OP == "where":
                v = tl.where(v > y, y, v)
            elif OP == "div":
                v = y / v
            elif OP == "sqrt":
                v = tl.sqrt(v)
            elif OP == "rsqrt":
                v = tl.rsqrt(v)
            elif OP == "exp":
                v = tl.exp(v)
            elif OP == "exp2":
                v = tl.exp2(v)
            elif OP == "log":
                v = tl.log(v)
            elif OP == "sin":
                v = tl.sin(v)
            elif OP == "cos":
                v = tl.cos(v)
            elif OP == "erf":
                v = tl.erf(v)
            elif OP == "int div":
                v = ((v + 2.0).to(tl.int32) // (y + 3.0).to(tl.int32)).to(tl.float32)
            elif OP == "load":
                v = v + tl.load(x_ptr + at + (k + 1) * BLOCK)
            elif OP == "gather":
                v = v + tl.load(x_ptr + at * 3 + k)
            elif OP == "store":
                tl.store(out_ptr + at + (k + 1) * BLOCK, v)
        tl.store(out_ptr + at, v + y)


# What the table says of each, in its units. A maximum has an addition beside it, a comparison its choice, a load the
# addition that uses it, and a division of whole numbers two additions and three conversions.
STATED: dict[str, float] = {
    "add": costs.SIMPLE,
    "mul": costs.SIMPLE,
    "maximum": 2 * costs.SIMPLE,
    "where": 2 * costs.SIMPLE,
    "div": costs.DIVIDE,
    "sqrt": costs.function_cost("sqrt"),
    "rsqrt": costs.function_cost("rsqrt"),
    "exp": costs.function_cost("exp"),
    "exp2": costs.function_cost("exp2"),
    "log": costs.function_cost("log"),
    "sin": costs.function_cost("sin"),
    "cos": costs.function_cost("cos"),
    "erf": costs.function_cost("erf"),
    "int div": costs.DIVIDE_INTEGERS + 5 * costs.SIMPLE,
    "load": costs.BESIDE + costs.SIMPLE,
    "gather": costs.APART + costs.SIMPLE,
    "store": costs.BESIDE,
}


def launched(op: str, times: int, x: object, y: object, out: object) -> Callable[[], None]:
    return lambda: stage[(1,)](x, y, out, PASSES, K=times, OP=op, BLOCK=BLOCK)


def measure(op: str, rounds: int, arrays: tuple[object, object, object]) -> dict[str, float | str]:
    works = {times: launched(op, times, *arrays) for times in TIMES}
    fastest: dict[int, float] = {times: float("inf") for times in TIMES}
    for work in works.values():
        work()
    for _ in range(rounds):
        for times, work in works.items():
            begin = time.thread_time_ns()
            work()
            fastest[times] = min(fastest[times], time.thread_time_ns() - begin)
    each = {times: ns / (PASSES * BLOCK) for times, ns in fastest.items()}
    return {
        "operation": op,
        "slope_ns": (each[12] - each[4]) / 8,
        "alone_ns": each[1] - each[0],
        "stated_ns": UNIT_NS * STATED[op],
    }


def show(rows: list[dict[str, float | str]]) -> None:
    print(f"{'ns an element':14}{'one more':>10}{'alone':>10}{'the table':>10}")
    for row in rows:
        print(
            f"{row['operation']:14}{row['slope_ns']:10.3f}{row['alone_ns']:10.3f}{row['stated_ns']:10.3f}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", help="this operation")
    args = parser.parse_args()
    tileprobe.use("cpu")
    pool.set_threads(1)
    rng = np.random.default_rng(0)
    numbers = [rng.uniform(0.5, 1.5, 16 * BLOCK).astype(np.float32) for _ in range(3)]
    x, y, out = (tileprobe.array(values) for values in numbers)
    rows = [measure(op, args.rounds, (x, y, out)) for op in STATED if args.only in (None, op)]
    show(rows)
    save("costs", {"operations": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
