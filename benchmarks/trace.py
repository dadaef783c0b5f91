"""Decoding, saving, loading and analysing a trace of ten million records: seconds and peak memory.

Usage: python benchmarks/trace.py [--records 10000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from tileprobe.files import write_json
from tileprobe.ir.layout import EPOCH, UNIT, Body, Layout, Span, Stamp, allocate
from tileprobe.tools.programs import Programs
from tileprobe.tools.regions import Regions
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit
from tileprobe.trace.decode import decode

ITERATIONS = 64
STAGES = 4


def attention_like() -> Layout:
    """A kernel with one loop: kernel, loop, iteration, and four stages that share their boundaries."""
    inner = tuple(Stamp(2 + n) for n in range(STAGES + 1))
    stages = [Span(3 + n, 2 + n, 3 + n) for n in range(STAGES)]
    spans = [Span(0, 0, 7 + 1), Span(1, 1, 7), Span(2, 2, 2 + STAGES), *stages]
    items = [Stamp(0), Stamp(1), Body(0, ITERATIONS, inner), Stamp(7), Stamp(8)]
    return allocate(items, spans=spans)


def fill(layout: Layout, programs: int) -> np.ndarray:
    """A buffer as the programs would have written it: random steps of the clock, in execution order."""
    rng = np.random.default_rng(1)
    clock = layout.clock_words()
    words = np.zeros((programs, layout.block_words), np.uint64)
    steps = rng.integers(50, 4000, (programs, int(clock.sum())), dtype=np.uint32)
    words[:, clock] = 10**15 + np.cumsum(steps, axis=1, dtype=np.uint64)
    words[:, layout.loops[0].trip_base] = (1 << 32) | ITERATIONS
    words[:, EPOCH], words[:, UNIT] = 1, np.arange(programs) % 8
    return words


def tables() -> dict[str, list]:
    names = ["kernel", "loop @ 31", "iteration", *(f"stage {n}" for n in range(STAGES))]
    parents = [None, 0, 1, *[2] * STAGES]
    kinds = ["kernel", "loop", "iteration", "load", "dot", "exp", "dot"]
    regions = [
        Region(n, name, kinds[n], parents[n], 0, "attention.py", 30 + n, 30 + n, min(n, 3))
        for n, name in enumerate(names)
    ]
    return {
        "kernels": [Kernel(0, "attention", "cpu", Clock(2.445e9))],
        "regions": regions,
        "units": [Unit(n, f"core {n}") for n in range(8)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    layout = attention_like()
    programs = max(1, args.records // int(layout.clock_words().sum()))
    words = fill(layout, programs)
    seconds: dict[str, float] = {}
    cpu_seconds: dict[str, float] = {}  # of all threads: what counts on a busy machine

    def timed(name, work, *arguments, **options):
        begin, cpu = time.perf_counter(), time.process_time()
        result = work(*arguments, **options)
        cpu_seconds[name] = time.process_time() - cpu
        seconds[name] = time.perf_counter() - begin
        return result

    decoded = timed("decode", decode, words, layout, epochs=[1], programs=programs)
    records = decoded.losses[0].kept
    launch = Launch(0, 0, (programs,), losses=decoded.losses[0])
    del words
    trace = timed("build", Trace.build, decoded.columns, launches=[launch], **tables())
    del decoded
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.parquet"
        timed("save", trace.save, path)
        size = path.stat().st_size
        del trace
        opened = timed("open", Trace.open, path)
        timed("regions", Regions().read, opened)
        timed("programs", Programs().read, opened)
        timed("load", Trace.load, path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    result = {
        "records": records,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "cpu_seconds": {name: round(value, 3) for name, value in cpu_seconds.items()},
        "file_mb": round(size / 1e6, 1),
        "peak_gib": round(peak, 2),
    }
    print(json.dumps(result, indent=2))
    if args.json:
        write_json(args.json, result)


if __name__ == "__main__":
    main()
