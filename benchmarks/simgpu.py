"""How fast simulated GPUs execute: warp instructions a second, and FLOP/s of matrix products.

`python -m benchmarks simgpu` runs an elementwise kernel, a softmax, a matrix product and attention with one thread and
with all by turns, and prints the medians of some launches, which take 50 ms and more with one thread. The first run of
each kernel (compiling, decoding) is not measured; the results of all numbers of threads must be the same bits. Beside
the gain by threads stands what a loop that only counts gains by as many, between the same launches: less than their
number on a machine that is not idle, where no launch can gain more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import numba
import numpy as np
import triton
import triton.language as tl
from examples.kernels import attention, matmul, softmax

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


@dataclass
class Work:
    call: Callable[[], object]
    out: Any
    flops: float = 0.0


def _random(shape: tuple[int, ...], dtype: Any) -> Any:
    return tileprobe.array(np.random.default_rng(0).standard_normal(shape).astype(dtype))


def _elementwise() -> Work:
    n = 1 << 23
    x, out = _random((n,), np.float32), _random((n,), np.float32)
    return Work(lambda: polynomial[(n // 1024,)](x, out, n, 1024), out)


def _softmax() -> Work:
    x, out = (_random((4096, 1024), np.float32) for _ in range(2))
    return Work(lambda: softmax.softmax(x, out), out)


def _matmul() -> Work:
    size = 512
    a, b, c = (_random((size, size), np.float16) for _ in range(3))
    return Work(lambda: matmul.matmul(a, b, c, tile=(128, 64, 32)), c, 2.0 * size**3)


def _attention() -> Work:
    heads, length, dim = 2, 512, 64
    q, k, v, out = (_random((heads, length, dim), np.float16) for _ in range(4))
    logs = _random((heads, length), np.float32)
    flops = 4.0 * heads * length * length * dim
    return Work(lambda: attention.forward(q, k, v, out, logs, causal=False), out, flops)


CASES = {"elementwise": _elementwise, "softmax": _softmax, "matmul f16": _matmul, "attention f16": _attention}
ROUNDS = 5
_COUNTED = 200_000_000  # steps of the loop that only counts: some 50 ms


@numba.njit(nogil=True)
def _count(steps):
    x = 1
    for n in range(steps):
        x = (x * 1103515245 + n) & 0xFFFFFFFF
    return x


def _counting(threads: int) -> float:
    """Seconds of the loop that only counts, shared out to threads."""
    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        list(pool.map(_count, [_COUNTED // threads] * threads))
        return time.perf_counter() - start


def _measure(
    machine: str, make: Callable[[], Work], counts: list[int]
) -> dict[int, tuple[float, float, float]]:
    """By the number of threads: seconds of a launch, warp instructions a second, and seconds of the loop."""
    work, results = make(), set()
    taken: dict[int, list[tuple[float, float, float]]] = {threads: [] for threads in counts}
    for number in range(ROUNDS + 1):
        for threads in counts:
            with tileprobe.use(machine, threads=threads):
                before, start = Counter.issued, time.perf_counter()
                work.call()
                seconds = time.perf_counter() - start
            results.add(np.asarray(work.out.numpy()).tobytes())
            if number:
                rate = (Counter.issued - before) / seconds
                taken[threads].append((seconds, rate, _counting(threads)))
    if len(results) > 1:
        raise SystemExit("results depend on the number of threads")
    return {
        threads: (median(s for s, *_ in found), median(r for _, r, _ in found), median(c for *_, c in found))
        for threads, found in taken.items()
    }


def main() -> None:
    counts = sorted({1, len(os.sched_getaffinity(0))})
    _count(1)  # compiled
    print(
        f"{'kernel':14}{'machine':10}{'threads':>8}{'M warp instr/s':>16}{'GFLOP/s':>10}{'speedup':>9}{'a loop':>8}"
    )
    for machine in ("sim:a100", "sim:h100"):
        for name, make in CASES.items():
            found = _measure(machine, make, counts)
            flops = make().flops
            for threads, (seconds, rate, counting) in found.items():
                speed = f"{flops / seconds / 1e9:10.2f}" if flops else f"{'':10}"
                gain = f"{found[1][0] / seconds:9.2f}{found[1][2] / counting:8.2f}" if threads > 1 else ""
                print(f"{name:14}{machine:10}{threads:8}{rate / 1e6:16.2f}{speed}{gain}", flush=True)


if __name__ == "__main__":
    main()
