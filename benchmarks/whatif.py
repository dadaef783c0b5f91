"""What was predicted to be won against what was, by doing it: ten kernels on the CPU, on a simulated A100 and an H100.

`whatif` says what half of a region would bring: on the CPU by delaying it, on simulated machines by letting it take no
time. Then the kernel runs with half of the region's rounds, on the CPU by turns with all of them: its memory is put
back as `whatif` does, and launches count that as many cores worked at. Of a kernel with a barrier that is released
late, the critical path says what moving it would bring; then it is moved.

A row is right where the two differ by no more than both of their errors; on the simulated machine, whose figures have
none, by two points. One that `whatif` said it cannot tell is neither. The exit status is 1 if one is wrong, or none is
right.

Usage: python -m benchmarks.whatif [--on sim | barrier | cpu] [--seconds S]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from examples import late_arrive

import tileprobe
from benchmarks._common import save
from benchmarks._whatif_kernels import KERNELS, Halved
from tileprobe.session.delaying import ask
from tileprobe.session.relaunching import Relaunch, relaunching, timed
from tileprobe.session.scaling import simulate
from tileprobe.targets.catalog import find
from tileprobe.tools import load_tool
from tileprobe.tools.slopes import alike, median_of

SIM_ROUNDS = (10, 20, 40, 60, 80, 100, 120, 140, 160, 200)
PAIRS = (
    100  # of whole and half on the CPU, of which those count that as many cores worked at as were asked about
)
POINTS = 0.02  # of the launch: what stands around the rounds, and a barrier that moves off the path itself


def on_cpu(seconds: float) -> list[dict]:
    target = find("cpu")[0]
    return [row for case in KERNELS for row in _on_cpu(case, target, seconds)]


def _on_cpu(case: Halved, target: Any, seconds: float) -> list[dict]:
    rows: list[dict] = []
    rounds = case.on_cpu

    def question(one: Relaunch) -> None:
        asked = ask(one, target, f"loop @ {case.lines[0]}", seconds, lambda _: None)
        found, gains = asked.regions, []
        for n in range(PAIRS):
            pair = [rounds, rounds // 2] if n % 2 else [rounds // 2, rounds]
            took = {r: timed(one, target, ROUNDS=r) for r in pair}
            cores = [each.cores for each in took.values()]
            if alike(np.array([[*cores, asked.at_work]]))[0]:  # what was said is of such launches
                gains.append(1 - took[rounds // 2].ns / took[rounds].ns)
        done, error = median_of(np.array(gains))
        low, value, high = (
            sum(getattr(row.saved, name) for row in found) / 2 for name in ("low", "value", "high")
        )
        rows.append(
            {
                "on": "cpu", "case": f"{case.name}, {rounds} rounds", "predicted": value,
                "predicted_error": max(high - value, value - low), "done": done, "done_error": error or 0.0,
                "told": all(row.saved.told for row in found) and error is not None,
                "cores": asked.at_work, "pairs": len(gains),
                "regions": {row.name: [row.slope.value, row.slope.error] for row in found},
            }
        )  # fmt: skip

    with tileprobe.use("cpu"), relaunching(question):
        case.launch(64, 2048, rounds)()
    return rows


def on_sim() -> list[dict]:
    """Kernels of all kinds, on two machines."""
    return [_on_sim(case, machine) for machine in ("sim:a100", "sim:h100") for case in KERNELS]


def _on_sim(case: Halved, machine: str) -> dict:
    found: list[Any] = []
    took: dict[int, float] = {}

    def question(one: Relaunch) -> None:
        target: Any = find(machine)[0]
        found.append(simulate(one, target, "{}-{}".format(*case.lines), 2.0, lambda _: None))
        with target.running_on(None, 1.0):
            one.restore()
            took[1] = target.measured(lambda: one.run(ROUNDS=case.on_sim // 2))

    with tileprobe.use(machine, timed=True, check=False), relaunching(question):
        case.launch(16, 256, case.on_sim)()
    (asked,) = found
    gain = asked.lines[0].gain if asked.together is None else asked.together
    return {
        "on": machine, "case": f"{case.name}, {case.on_sim} rounds", "predicted": gain / 2,
        "done": 1 - took[1] / asked.took_ns,
    }  # fmt: skip


def barrier() -> list[dict]:
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
    parser.add_argument("--on", choices=("sim", "barrier", "cpu"), help="only one of them")
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="of delays, for each case on the CPU"
    )
    args = parser.parse_args()
    every = {"sim": on_sim, "barrier": barrier, "cpu": lambda: on_cpu(args.seconds)}
    rows = [row for name, rows in every.items() if args.on in (None, name) for row in rows()]
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
    print(f"{'machine':<10}{'case':<26}{'predicted':>9}{'':<7}{'done':>9}{'':<7}{'off by':>9}")
    for row in rows:
        said = ""
        for name in ("predicted", "done"):
            error = row.get(f"{name}_error")
            said += f"{100 * row[name]:>7.1f} %" + ("" if error is None else f" ±{100 * error:.1f}").ljust(7)
        on = f" on {row['cores']:.1f} cores, {row['pairs']} pairs" if "cores" in row else ""
        print(f"{row['on']:<10}{row['case']:<26}{said}{100 * row['off']:>7.1f} %  {row['verdict']}{on}")


if __name__ == "__main__":
    sys.exit(main())
