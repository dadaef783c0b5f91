"""What a launch costs: a warm empty kernel through Triton's JIT, with no arguments and with several.

Prints JSON: median and 90th percentile in microseconds. The floor it is held to is 30 us.
"""

from __future__ import annotations

import json
import time

import numpy as np
import triton
import triton.language as tl

import tileprobe


@triton.jit
def empty():
    pass


@triton.jit
def empty_with_arguments(x, y, out, rows, columns, scale, BLOCK: tl.constexpr):
    pass


def measure(call, repeats: int = 5000) -> dict[str, float]:
    for _ in range(500):
        call()
    times = np.empty(repeats)
    for i in range(repeats):
        begin = time.perf_counter_ns()
        call()
        times[i] = time.perf_counter_ns() - begin
    return {"median_us": round(np.median(times) / 1e3, 2), "p90_us": round(np.quantile(times, 0.9) / 1e3, 2)}


def main() -> dict[str, dict[str, float]]:
    arrays = [tileprobe.array(np.zeros((64, 64), np.float32)) for _ in range(3)]
    with tileprobe.use("cpu"):
        return {
            "no arguments": measure(lambda: empty[(1,)]()),
            "7 arguments": measure(lambda: empty_with_arguments[(1,)](*arrays, 64, 64, 0.5, BLOCK=64)),
            "7 arguments, 64 programs": measure(
                lambda: empty_with_arguments[(64,)](*arrays, 64, 64, 0.5, BLOCK=64)
            ),
        }


if __name__ == "__main__":
    print(json.dumps(main(), indent=2))
