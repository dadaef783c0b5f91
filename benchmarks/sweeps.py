"""What sweeps cost: each executor for points that do nothing, and a grid of an 8B model with one worker and two.

`python -m benchmarks sweeps` measures all with a short grid; `python -m benchmarks.sweeps --part points --points 10000
--workers 2` is the long one, and `--part overhead --on dask` one executor alone. Starting is not part of the times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks._common import ROOT, machine
from tileprobe.sweeps.driver import Driver, Rules
from tileprobe.sweeps.executors import open_executor
from tileprobe.sweeps.ledger import Ledger
from tileprobe.sweeps.points import Work, grid
from tileprobe.targets.cambricon.points import work

RESULT = ROOT / "benchmarks" / "results" / "sweeps.json"
AXES: dict[str, list[Any]] = {  # 10,240 machines for Llama-3-8B
    "channels": [4, 8, 16, 32],
    "chips_per_channel": [1, 2, 4, 8],
    "read_us": [15.0, 20.0, 25.0, 30.0],
    "channel_gb_per_s": [0.8, 1.2, 1.6, 2.4],
    "slice_bytes": [512, 1024, 2048, 4096],
    "dram_gb_per_s": [20.0, 40.0, 60.0, 80.0, 120.0],
    "context": [1000, 4000],
}
FIXED = {"model": "llama3-8b", "device": "cambricon:s"}


def run(
    on: str, workers: int, task: Work, settings: Iterable[dict[str, Any]], warm: int, path: Path
) -> dict[str, Any]:
    """Seconds for points on an executor that has run `warm` of them before."""
    points = iter(settings)
    with contextlib.closing(Ledger(path, "benchmark", restart=True)) as ledger:
        begun = time.perf_counter()
        with contextlib.closing(open_executor(on, workers)) as executor:
            first = list(islice(points, warm))
            Driver(task, ledger, executor, Rules()).run(first, len(first))
            started, processor = time.perf_counter(), sum(os.times()[:2])
            driver = Driver(task, ledger, executor, Rules())
            rest = list(points)
            driver.run(rest, len(rest))
            seconds = time.perf_counter() - started
            processor = sum(os.times()[:2]) - processor
        failed = driver.standing.failed
        size = path.stat().st_size / (len(rest) + len(first))
        done = [entry["seconds"] for entry in islice(ledger.entries(), warm, None)]
    return {
        "on": on, "workers": workers, "points": len(rest), "failed": failed, "start_s": round(started - begun, 2),
        "seconds": round(seconds, 3), "ms_per_point": round(seconds / len(rest) * 1e3, 4),
        "driver_ms_per_point": round(processor / len(rest) * 1e3, 4),
        "point_ms": round(sum(done) / len(done) * 1e3, 3), "bytes_per_point": round(size),
    }  # fmt: skip


def overhead(on: str, workers: int, count: int, folder: Path) -> dict[str, Any]:
    task = Work("benchmarks._sweep_points:nothing", "1")
    return run(on, workers, task, ({"x": x} for x in range(count + 20)), 20, folder / "overhead.jsonl")


def points(on: str, workers: int, count: int, folder: Path) -> dict[str, Any]:
    """The grid is walked with a stride, so that a part of it has all kinds of machines."""
    every = list(grid(FIXED, AXES))
    stride = next(n for n in range(len(every) * 5 // 8, 0, -1) if math.gcd(n, len(every)) == 1)
    chosen = (every[n * stride % len(every)] for n in range(count + 4))
    return run(on, workers, work(), chosen, 4, folder / "points.jsonl")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("overhead", "points"), help="default: both")
    parser.add_argument(
        "--on", action="append", choices=("local", "dask", "ray"), help="default: all for the overhead"
    )
    parser.add_argument("--workers", type=int, action="append", help="default: 1 and 2")
    parser.add_argument("--points", type=int, default=200, help="of the grid (default %(default)s)")
    parser.add_argument(
        "--empty", type=int, default=2000, help="points that do nothing (default %(default)s)"
    )
    args = parser.parse_args(arguments)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    rows = []
    with tempfile.TemporaryDirectory(prefix="tileprobe-") as folder:
        for workers in args.workers or (1, 2):
            if args.part != "points":
                for on in args.on or ("local", "dask", "ray"):
                    rows.append({"part": "overhead", **overhead(on, workers, args.empty, Path(folder))})
                    print(rows[-1], flush=True)
            if args.part != "overhead":
                for on in args.on or ("local",):
                    rows.append({"part": "points", **points(on, workers, args.points, Path(folder))})
                    print(rows[-1], flush=True)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
    return 1 if any(row["failed"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
