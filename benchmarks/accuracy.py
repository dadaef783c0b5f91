"""Is what we measure true? One region's work is planted n = 1, 2 and 4 times, in kernels of three sorts.

The truth is the unprobed kernel: what one more repetition adds to its time. The planted region's measured time
must grow by as much, and the times of the other regions must stay what they were. All variants run in turns.
The last kernel plants a very short region, a copy in the L1 cache. The goal is a mean error under 2 %. That the
parts add up to the whole is only a check of the sums. Figures are medians over several processes, as in overhead.py.

Usage: python -m benchmarks.accuracy [--seconds 3] [--processes 5]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import triton
import triton.language as tl
from examples.kernels import _tensors as T

import tileprobe
from benchmarks._common import in_process, save
from benchmarks._probed import Side, alternate, medians, turns, typical
from tileprobe.ir.layout import Layout
from tileprobe.ir.regions import Region
from tileprobe.targets.cpu import clock_source as clock
from tileprobe.tools.regions import Regions
from tileprobe.trace.blocks import Rows
from tileprobe.trace.decode import decode, read_rows
from tileprobe.trace.in_place import in_place
from tileprobe.trace.replay import Calibration, calibrate

TIMES = (1, 2, 4)
GOAL_PERCENT = 2.0
PROGRAMS = 16
KEEP = 400


@triton.jit(do_not_specialize=["times"])
def exponentials(x, out, times, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    top = tl.max(tl.load(x + at), axis=0)
    total = 0.0
    for n in range(times):  # planted
        total += tl.sum(tl.exp(tl.load(x + at) - top - n), axis=0)
    tl.store(out + at, tl.sqrt(tl.load(x + at) * total + 1.0))


@triton.jit(do_not_specialize=["times"])
def products(x, out, times, BLOCK: tl.constexpr):
    rows, cols = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    at = tl.program_id(0) * BLOCK + rows * 64 + cols
    a = tl.load(x + at) * 0.01
    total = tl.zeros((64, 64), tl.float32)
    for _ in range(times):  # planted
        total = tl.dot(a, a, total, input_precision="ieee")
    tl.store(out + at, tl.sqrt(total * total + 1.0))


@triton.jit(do_not_specialize=["times"])
def copies(x, out, times, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.exp(tl.load(x + at) * 0.5), axis=0)
    for n in range(times):  # planted
        tl.store(out + at, tl.load(x + at) + n)
    tl.store(out + at, tl.sqrt(tl.load(out + at) * total + 1.0))


WORKS = ((exponentials, 4096), (products, 4096), (copies, 32768), (copies, 4096))


def region_times(side: Side, calibration: Calibration | None) -> dict[int, float]:
    """For each region its time a program in ns: summed over the programs of a launch, the typical launch."""
    totals: dict[int, list[float]] = {}
    scale = 1e9 / clock.rate_hz()
    for run in side.recorded:
        assert run.layout is not None
        assert run.words is not None
        columns = decode(
            run.full_words(), run.layout, epochs=[run.epoch], programs=run.programs,
            sampling=run.sampling, calibration=calibration,
        ).columns  # fmt: skip
        names = ("start_corrected", "stop_corrected") if calibration else ("start", "stop")
        length = (columns[names[1]] - columns[names[0]]) * scale
        sums = np.bincount(columns["region"], weights=length)
        for region in np.unique(columns["region"]):
            totals.setdefault(int(region), []).append(sums[region] / run.programs)
    return {region: float(np.percentile(values, 10)) for region, values in totals.items()}


def rows_of(side: Side) -> list[Rows]:
    runs = side.recorded
    layout: Layout | None = runs[0].layout
    assert layout is not None
    words = np.stack([run.full_words() for run in runs])
    epochs = [run.epoch for run in runs]
    return read_rows(words, layout, epochs=epochs, programs=PROGRAMS, sampling=runs[0].sampling)[0]


def learn(plain: Side, once: Side, thrice: Side, light: Side) -> Calibration:
    """As a session does it, from sides that all do the same work."""
    found = calibrate({1: rows_of(once), 3: rows_of(thrice)})
    durations = plain.times_ns, light.times_ns
    here = in_place(rows_of(once), rows_of(light), found, durations)
    return replace(found, share=here.share, code=here.code)


def measure(kernel: Any, block: int, seconds: float) -> dict[str, Any]:
    x, out = T.normal(PROGRAMS * block), T.zeros(PROGRAMS * block)

    def work(times: int) -> Callable[[], Any]:
        return lambda: kernel[(PROGRAMS,)](x, out, times, BLOCK=block)

    plan = Regions().plan()
    plain = {n: Side(f"plain {n}", work=work(n)) for n in TIMES}
    probed = {n: Side(f"probed {n}", plan, work=work(n)) for n in TIMES}
    dosed = Side("dosed", plan, copies=3, work=work(4))
    light = Side("light", plan, light=True, work=work(4))
    with turns(keep=KEEP) as turn:
        alternate(turn, [*plain.values(), *probed.values(), dosed, light], work(1), seconds)
    variant = next(iter(probed[1].variants.values()))
    regions = {region.id: region for region in variant.regions}
    planted = next(number for number, region in regions.items() if region.kind == "loop")
    inside = _below(regions, planted)
    others = [n for n, region in regions.items() if n not in inside and region.kind != "kernel"]
    truth = {n: typical(plain[n].times_ns) / PROGRAMS for n in TIMES}
    result: dict[str, Any] = {"kernel": f"{kernel.__name__}, {block}", "launches": len(plain[1].times_ns)}
    result["planted_ns"] = _slope(truth)
    for word, calibration in (("raw", None), ("corrected", learn(plain[4], probed[4], dosed, light))):
        found = {n: region_times(probed[n], calibration) for n in TIMES}
        slope = _slope({n: found[n][planted] for n in TIMES})
        moved = [abs(found[n][r] / found[1][r] - 1.0) for r in others for n in TIMES[1:]]
        result[word] = {
            "planted_error_percent": 100.0 * abs(slope / _slope(truth) - 1.0),
            "others_error_percent": 100.0 * float(np.mean(moved)),
            "others_ns": {regions[r].name: found[1][r] for r in others},
        }
    return result


def _below(regions: dict[int, Region], root: int) -> set[int]:
    found = {root}
    while True:
        more = {n for n, region in regions.items() if region.parent in found} - found
        if not more:
            return found
        found |= more


def _slope(times: dict[int, float]) -> float:
    """What one more repetition adds."""
    return float(np.polyfit(list(times), list(times.values()), 1)[0])


def show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="planted work: error of the measured times, in percent", title_justify="left")
    for name in ("kernel", "one repetition", "planted, raw", "others, raw", "planted", "others", "rounds"):
        table.add_column(name, justify="left" if name == "kernel" else "right")
    for row in rows:
        cells = [
            f"{row[w][f'{part}_error_percent']:.2f}"
            for w in ("raw", "corrected")
            for part in ("planted", "others")
        ]
        table.add_row(row["kernel"], f"{row['planted_ns']:.0f} ns", *cells, str(row["launches"]))
    Console(width=max(110, Console().width)).print(table)


def once(seconds: float) -> list[dict[str, Any]]:
    """All kernels in this process."""
    tileprobe.use("cpu")
    clock.start()
    return [measure(kernel, block, seconds) for kernel, block in WORKS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each kernel and process")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        print(json.dumps(once(args.seconds)))
        return 0
    runs = [
        in_process("benchmarks.accuracy", "--once", "--seconds", str(args.seconds))
        for _ in range(args.processes)
    ]
    rows = [medians(list(same)) for same in zip(*runs)]
    show(rows)
    parts = ("planted_error_percent", "others_error_percent")
    mean = {w: float(np.mean([row[w][part] for row in rows for part in parts])) for w in ("raw", "corrected")}
    ok = mean["corrected"] < GOAL_PERCENT
    print(
        f"mean error: {mean['corrected']:.2f} % corrected, {mean['raw']:.2f} % raw "
        f"(goal: under {GOAL_PERCENT:g} %) {'yes' if ok else 'no'}"
    )
    save("accuracy", {"kernels": rows, "mean": [{**mean, "goal": GOAL_PERCENT, "ok": ok}], "processes": runs})
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
