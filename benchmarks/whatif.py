"""What was predicted to be won against what was, by doing it: ten cases on the CPU, ten on a simulated H100.

On the CPU `whatif` says what half of a region would bring by delaying it; then the kernel runs with half of the
region's rounds, by turns with all of them. On the simulated machine the critical path of a kernel with a barrier that
is released late says what moving it would bring; then it is moved.

A row is right where the two differ by no more than both of their errors; on the simulated machine, whose figures have
none, by two points. One that `whatif` said it cannot tell is neither. The exit status is 1 if one is wrong, or none is
right.

Usage: python -m benchmarks whatif [--on sim | cpu] [--seconds S]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import triton
import triton.language as tl
from examples import late_arrive

import tileprobe
from benchmarks._common import save
from tileprobe.session.delaying import ask
from tileprobe.session.relaunching import Relaunch, relaunching, taken_ns
from tileprobe.targets.catalog import find
from tileprobe.tools import load_tool
from tileprobe.tools.slopes import median_of

SIM_ROUNDS = (10, 20, 40, 60, 80, 100, 120, 140, 160, 200)
CPU_ROUNDS = (4, 8, 16, 32, 64)
POINTS = 0.02  # of the launch: where a barrier moves off the path itself, which the prediction leaves out


@triton.jit
def sines(x, y, out, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    for _ in range(ROUNDS):
        a = tl.sin(a)
    tl.store(y + i, a)
    b = tl.load(y + (i ^ 1))
    for _ in range(16):
        b = tl.exp(-b)
    tl.store(out + i, b)


@triton.jit
def roots(x, y, out, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    for _ in range(ROUNDS):
        a = tl.sqrt(a + 1.0)
    tl.store(y + i, a)
    b = tl.load(y + (i ^ 1))
    for _ in range(16):
        b = tl.exp(-b)
    tl.store(out + i, b)


def on_cpu(seconds: float) -> list[dict]:
    target, size, block = find("cpu")[0], 1 << 17, 2048
    rows: list[dict] = []
    for kernel, word in ((sines, "sin"), (roots, "sqrt")):
        for rounds in CPU_ROUNDS:

            def question(one: Relaunch, rounds: int = rounds, word: str = word) -> None:
                found = ask(one, target, word, seconds, lambda _: None)
                gains = []
                for n in range(40):
                    pair = [rounds, rounds // 2] if n % 2 else [rounds // 2, rounds]
                    times = {r: taken_ns(lambda r=r: one.run(ROUNDS=r), target) or 1.0 for r in pair}
                    gains.append(1 - times[rounds // 2] / times[rounds])
                done, error = median_of(np.array(gains))
                top = found.regions[0]
                rows.append(
                    {
                        "on": "cpu", "case": f"{one.name}, {rounds} rounds", "predicted": top.saved.value / 2,
                        "predicted_error": max(top.saved.high - top.saved.value, top.saved.value - top.saved.low) / 2, "done": done, "done_error": error or 0.0,
                        "slope": top.slope.value, "slope_error": top.slope.error, "cores": found.cores,
                        "told": top.saved.told and error is not None,
                    }
                )  # fmt: skip

            x, y, out = (tileprobe.array(np.ones(size, np.float32)) for _ in range(3))
            with tileprobe.use("cpu"), relaunching(question):
                kernel[(size // block,)](x, y, out, BLOCK=block, ROUNDS=rounds)
    return rows


def on_sim() -> list[dict]:
    source = open(late_arrive.__file__).read().splitlines()  # noqa: SIM115
    words = ("buffer.load", "if not EARLY", "wait(empty", "mbarrier.arrive(full")
    first, late, producer, filled = (next(n for n, x in enumerate(source, 1) if w in x) for w in words)
    rows: list[dict] = []
    for rounds in SIM_ROUNDS:
        took: dict[bool, float] = {}
        predicted = 0.0
        for early in (False, True):
            with tileprobe.use("sim:h100", timed=True, check=False), tileprobe.profile() as session:
                late_arrive.launch(early, rounds)
            took[early] = float(session.trace.launches[0].duration_ns or 0.0)
            if early:
                continue
            tables = load_tool("critical-path").read(session.trace).tables
            lines = {
                int(row["line"].rpartition(":")[2]): row["ns"]
                for row in next(t.frame for t in tables if "lines on it" in t.title).iter_rows(named=True)
                if "-" not in row["line"]
            }
            consumer = sum(ns for line, ns in lines.items() if first <= line < late)
            other = sum(ns for line, ns in lines.items() if producer <= line <= filled)
            # beside each other, all but the last step of the shorter one is hidden
            predicted = min(consumer, other) * (1 - 1 / late_arrive.STEPS) / took[False]
        rows.append(
            {
                "on": "sim:h100", "case": f"late arrive, {rounds} rounds", "predicted": predicted,
                "done": 1 - took[True] / took[False],
            }
        )  # fmt: skip
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", choices=("sim", "cpu"), help="only one of them")
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="of delays, for each case on the CPU"
    )
    args = parser.parse_args()
    rows = ([] if args.on == "cpu" else on_sim()) + ([] if args.on == "sim" else on_cpu(args.seconds))
    for row in rows:
        row["off"] = row["predicted"] - row["done"]
        row["verdict"] = verdict(row)
    show(rows)
    save("whatif", {"rows": rows})
    verdicts = [row["verdict"] for row in rows]
    print(", ".join(f"{verdicts.count(word)} {word}" for word in ("right", "wrong", "cannot be told")))
    return 0 if "wrong" not in verdicts and "right" in verdicts else 1


def verdict(row: dict) -> str:
    if not row.get("told", True):
        return "cannot be told"
    reach = row["predicted_error"] + row["done_error"] if "told" in row else POINTS
    return "right" if abs(row["off"]) <= reach else "wrong"


def show(rows: list[dict]) -> None:
    print(f"{'machine':<10}{'case':<26}{'predicted':>9}{'':<7}{'done':>9}{'':<7}{'off by':>9}  {'slope':<14}")
    for row in rows:
        said = ""
        for name in ("predicted", "done"):
            error = row.get(f"{name}_error")
            said += f"{100 * row[name]:>7.1f} %" + ("" if error is None else f" ±{100 * error:.1f}").ljust(7)
        slope = f"{row['slope']:.2f} ±{row['slope_error'] or 0:.2f}" if "slope" in row else ""
        print(
            f"{row['on']:<10}{row['case']:<26}{said}{100 * row['off']:>7.1f} %  {slope:<14}{row['verdict']}"
        )


if __name__ == "__main__":
    sys.exit(main())
