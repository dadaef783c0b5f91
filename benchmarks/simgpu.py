"""How fast simulated GPUs execute: warp instructions a second, and FLOP/s of matrix products.

`python -m benchmarks simgpu` runs an elementwise kernel, a softmax and matrix products with one thread and with all,
and prints rates. The first run of each kernel (compiling, decoding) is not measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import triton
import triton.language as tl
from examples.kernels import matmul, softmax

import tileprobe
from tileprobe.targets.simgpu.device import Counter


@triton.jit
def polynomial(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    y = v
    for _ in range(16):
        y = y * v + 0.5
    tl.store(out + i, y, mask=i < n)


def _elementwise() -> tuple[Callable[[], object], float]:
    n = 1 << 20
    x, out = (tileprobe.array(np.zeros(n, np.float32)) for _ in range(2))
    return lambda: polynomial[(n // 1024,)](x, out, n, 1024), 0.0


def _softmax() -> tuple[Callable[[], object], float]:
    x, out = (tileprobe.array(np.zeros((512, 1024), np.float32)) for _ in range(2))
    return lambda: softmax.softmax(x, out), 0.0


def _matmul() -> tuple[Callable[[], object], float]:
    size = 256
    a, b, c = (tileprobe.array(np.ones((size, size), np.float16)) for _ in range(3))
    return lambda: matmul.matmul(a, b, c, tile=(128, 128, 32)), 2.0 * size**3


CASES = {"elementwise": _elementwise, "softmax": _softmax, "matmul f16": _matmul}


def main() -> None:
    print(f"{'kernel':14}{'machine':10}{'threads':>8}{'M warp instr/s':>16}{'GFLOP/s':>10}")
    for machine in ("sim:a100", "sim:h100"):
        for threads in sorted({1, len(os.sched_getaffinity(0))}):
            for name, make in CASES.items():
                with tileprobe.use(machine, threads=threads):
                    call, flops = make()
                    call()
                    before, start = Counter.issued, time.perf_counter()
                    call()
                    taken = time.perf_counter() - start
                rate = (Counter.issued - before) / taken / 1e6
                speed = f"{flops / taken / 1e9:10.2f}" if flops else f"{'':10}"
                print(f"{name:14}{machine:10}{threads:8}{rate:16.2f}{speed}")


if __name__ == "__main__":
    main()
