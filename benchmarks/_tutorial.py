"""Runs one of Triton's tutorials as it is, but for its benchmarks: `triton.testing.perf_report` runs nothing.

Comes in: the path of the script, or of a script and a pytest selection. What the tutorial checks itself decides: it
raises, or it prints what differs.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any


def main(path: str, *selection: str) -> int:
    import triton.testing

    def without_benchmarks(self: Any, *_: Any, **__: Any) -> None:
        print(f"(the benchmark {self.fn.__name__} is left out)")

    triton.testing.Mark.run = without_benchmarks
    if selection:
        import pytest

        return int(pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", path, *selection]))
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
