"""How near the simulated GPU's time is to published figures of real ones: Triton's tutorial kernels on an A100.

`python -m benchmarks simgpu_time [--full]` runs products of matrices, row softmax and attention on `sim:a100` with time
and other data in the caches, as the tutorials are measured, and prints what the model says beside what was published
for the silicon, at the nominal clock. Kernels are those of `examples/kernels`; of a product's configurations the
fastest counts, as the tutorial's autotuner has it. Constants of the machine come from microbenchmarks
(`machines/a100.toml`), none from here. `--full` takes the largest sizes, too (minutes). Each fastest launch runs once
more on one thread: the rate of both is printed, and the cycles must be the same. Others' rates, as published: Accel-Sim
12,500 warp instructions a second (traces of a real GPU), GPGPU-Sim 4.2 about 10,000 (PTX, no tensor cores of today).

Published: the plots of Triton's tutorials 02, 03 and 06 as its documentation has them; clock, compiler and chosen
configuration of those runs are not stated there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import triton
from examples.kernels import attention, matmul, softmax

import tileprobe
from benchmarks._common import save
from tileprobe.targets.simgpu.settings import settings
from tileprobe.targets.simgpu.timing.chip import Timed

MACHINE = "sim:a100"
PRODUCTS = {512: 26.0, 1024: 100.0, 2048: 191.0, 4096: 220.0}  # TFLOP/s
SOFTMAX = {256: 467.0, 1024: 999.0}  # GB/s, 4096 rows
ATTENTION = {1024: 141.0}  # TFLOP/s, head of 64, not causal
CONFIGS = (
    (128, 128, 32, 4, 4),
    (128, 64, 32, 4, 4),
    (64, 64, 32, 4, 4),
    (128, 256, 64, 8, 3),
)  # tile, warps, stages: shapes of the tutorial's own list


def timed(launch: Callable[[], Any], threads: int = 0) -> tuple[Timed, float]:
    """What a launch took on the chip, with other data in the caches, and seconds that this took here."""
    from triton.runtime import driver

    active: Any = driver.active
    settings.threads = threads
    found: list[Timed] = []
    run = active.chip.run
    active.chip.run = lambda *args: found.append(run(*args)) or found[-1]
    active.chip.overwrite()  # as `do_bench` does before each run
    start = time.perf_counter()
    launch()
    active.chip.run = run
    return found[-1], time.perf_counter() - start


Case = tuple[str, float, Timed, float, Callable[[], Any]]  # name, work, what it took, seconds, the launch


def product(n: int) -> Case:
    a, b, c = (tileprobe.array(np.ones((n, n), np.float16)) for _ in range(3))
    best = None
    for m, k, depth, warps, stages in CONFIGS:
        grid = (triton.cdiv(n, m) * triton.cdiv(n, k),)

        def launch(grid: Any = grid, sizes: Any = (m, k, depth), how: Any = (warps, stages)) -> None:
            kernel: Any = matmul.matmul_kernel
            kernel[grid](
                *matmul._arguments(a, b, c), BLOCK_M=sizes[0], BLOCK_N=sizes[1], BLOCK_K=sizes[2], GROUP=8,
                ACTIVATION="", num_warps=how[0], num_stages=how[1],
            )  # fmt: skip

        took, seconds = timed(launch)
        if best is None or took.cycles < best[1].cycles:
            best = f"product {n}, {m} x {k} x {depth}", took, seconds, launch
    assert best is not None
    return best[0], 2.0 * n**3 / 1e12, *best[1:]


def rows(columns: int) -> Case:
    x, out = (tileprobe.array(np.zeros((4096, columns), np.float32)) for _ in range(2))

    def launch() -> None:
        softmax.softmax(x, out, programs=108 * 8)

    took, seconds = timed(launch)
    return f"softmax 4096 x {columns}", 2.0 * x.numpy().nbytes / 1e9, took, seconds, launch


def heads(length: int) -> Case:
    count = 128  # 4 x 32, as the tutorial has them
    q, k, v, out = (tileprobe.array(np.zeros((count, length, 64), np.float16)) for _ in range(4))
    sums = tileprobe.array(np.zeros((count, length), np.float32))

    def launch() -> None:
        kernel: Any = attention.forward_kernel
        kernel[(triton.cdiv(length, 128), count)](
            q, k, v, out, sums, length, 0.125, DIM=64, CAUSAL=False, BLOCK_M=128, BLOCK_N=64, num_warps=4, num_stages=4
        )  # fmt: skip

    took, seconds = timed(launch)
    return f"attention {length}, head of 64", 4.0 * count * length**2 * 64 / 1e12, took, seconds, launch


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the largest sizes, too")
    full = parser.parse_args().full
    cases: list[tuple[Callable[[int], Any], int, float, str]] = [
        (product, n, known, "TFLOP/s") for n, known in PRODUCTS.items() if full or n <= 1024
    ]
    cases += [(rows, n, known, "GB/s") for n, known in SOFTMAX.items()]
    cases += [(heads, n, known, "TFLOP/s") for n, known in ATTENTION.items() if full]
    head = f"{'kernel':30}{'cycles':>10}{'model':>9}{'published':>11}{'error':>8}"
    print(f"{head}{'M instr/s':>11}{'one thread':>12}")
    results = []
    with tileprobe.use(MACHINE, timed=True, check=False, fast_sums=True):
        from triton.runtime import driver

        clock = driver.active.machine.clock_mhz * 1e6  # pyright: ignore[reportAttributeAccessIssue]
        for make, size, known, unit in cases:
            name, work, took, seconds, launch = make(size)
            seconds = min(seconds, timed(launch)[1])  # the first one may have compiled something
            again, alone = timed(launch, threads=1)
            assert again.cycles == took.cycles, (
                f"{again.cycles} cycles on one thread, {took.cycles} on several"
            )
            speed = work / (took.cycles / clock)
            error = 100 * (speed / known - 1)
            rate, single = took.instructions / seconds / 1e6, took.instructions / alone / 1e6
            print(
                f"{name:30}{took.cycles:10,}{speed:9.0f}{known:11.0f}{error:+7.0f} %{rate:11.2f}{single:12.2f}  {unit}",
                flush=True,
            )
            results.append(
                {"kernel": name, "cycles": took.cycles, "model": speed, "published": known, "unit": unit,
                 "error_percent": error, "instructions": took.instructions, "rate": rate * 1e6,
                 "rate_one_thread": single * 1e6}
            )  # fmt: skip
    mean = float(np.mean([abs(r["error_percent"]) for r in results]))
    print(
        f"mean error {mean:.0f} %, largest {max(abs(r['error_percent']) for r in results):.0f} %; nominal clock"
    )
    save("simgpu_time", {"cases": results, "mean error": [{"percent": mean}]})


if __name__ == "__main__":
    main()
