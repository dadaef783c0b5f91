"""Runs one of Triton's tutorials as it is, but for its benchmarks: `triton.testing.perf_report` runs nothing, and a
script that starts Triton's profiler itself (it has a benchmark behind that, of 20,000 launches a kernel) ends there.

Comes in: the path of the script and its own options, or `--pytest`, the path and a pytest selection. What the tutorial
checks itself decides: it raises, or it prints what differs.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any


def main(*words: str) -> int:
    import triton.profiler
    import triton.testing

    def without_benchmarks(self: Any, *_: Any, **__: Any) -> None:
        print(f"(the benchmark {self.fn.__name__} is left out)")

    def end_before_benchmark(name: str, *_: Any, **__: Any) -> None:
        print(f"(the benchmark that is profiled as {name} is left out)")
        raise SystemExit(0)

    triton.testing.Mark.run = without_benchmarks
    triton.profiler.start = end_before_benchmark
    if words[0] == "--pytest":
        import pytest

        return int(pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", *words[1:]]))
    sys.argv = list(words)
    runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
