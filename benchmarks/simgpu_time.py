"""How near the simulated GPU's time is to published figures of real ones: Triton's tutorial kernels on A100 and H100.

`python -m benchmarks simgpu_time [--full] [--plot FILE]` runs products of matrices, row softmax and attention with time
and other data in the caches, as the tutorials are measured, and prints what the model says beside what was published
for the silicon, at the nominal clock and at the one that power leaves it. Kernels are those of `examples/kernels`; of
several configurations the fastest counts, as the tutorials' autotuner has it. Constants of a machine come from
microbenchmarks (`machines/*.toml`), none from here. `--full` takes the large sizes, too (minutes). Each fastest launch
runs once more on one thread: the rate of both is printed, and the cycles must be the same. Others' rates, as published:
Accel-Sim 12,500 warp instructions a second (traces of a real GPU), GPGPU-Sim 4.2 about 10,000 (PTX, no tensor cores of
today).

Compilers, chosen configurations and clocks of the published runs are not stated by their sources.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton
from examples.kernels import attention, matmul, softmax

import tileprobe
from benchmarks._common import save
from tileprobe.targets.simgpu.settings import settings
from tileprobe.targets.simgpu.timing.chip import Timed

CLOCKS = ("nominal", "sustained")
TUTORIALS = "Triton's documentation, plots of tutorials 02, 03 and 06"
ISSUE = "triton-lang/triton issue 7085, tutorial 03 with Triton 3.2"
FORK = "facebookexperimental/triton pull request 205, tutorial 06 without warp specialisation"
FLASH = "Dao-AILab/flash-attention issue 1777"
TILES = (
    (128, 128, 32, 4, 4),
    (128, 64, 32, 4, 4),
    (64, 64, 32, 4, 4),
    (128, 256, 64, 8, 3),
)  # tile, warps, stages: shapes of the tutorial's own list
BLOCKS = {
    "sim:a100": ((128, 64, 4, 4),),
    "sim:h100": ((128, 128, 8, 3),),
    "sim:h100-pcie": ((128, 64, 4, 3),),
}

Launch = Callable[[], Any]


@dataclass(frozen=True)
class Point:
    """Something that was measured on silicon."""

    machine: str
    name: str
    published: float
    unit: str
    source: str
    work: float  # of a launch, in what a second of the unit has
    launches: Callable[[], Iterator[Launch]]  # one for each configuration
    large: bool = False


def product(n: int, published: float, source: str = TUTORIALS) -> Point:
    def launches() -> Iterator[Launch]:
        a, b, c = (tileprobe.array(np.ones((n, n), np.float16)) for _ in range(3))
        kernel: Any = matmul.matmul_kernel
        for m, k, depth, warps, stages in TILES:
            yield lambda m=m, k=k, depth=depth, warps=warps, stages=stages: kernel[
                (triton.cdiv(n, m) * triton.cdiv(n, k),)
            ](
                *matmul._arguments(a, b, c), BLOCK_M=m, BLOCK_N=k, BLOCK_K=depth, GROUP=8, ACTIVATION="",
                num_warps=warps, num_stages=stages,
            )  # fmt: skip

    flops = 2.0 * n**3 / 1e12
    return Point("sim:a100", f"product {n}", published, "TFLOP/s", source, flops, launches, n > 1024)


def rows(columns: int, published: float) -> Point:
    def launches() -> Iterator[Launch]:
        x, out = (tileprobe.array(np.zeros((4096, columns), np.float32)) for _ in range(2))
        yield lambda: softmax.softmax(x, out, programs=108 * 8)

    moved = 2.0 * 4 * 4096 * columns / 1e9
    return Point("sim:a100", f"softmax 4096 x {columns}", published, "GB/s", TUTORIALS, moved, launches)


def heads(machine: str, count: int, dim: int, published: float, source: str, length: int = 1024) -> Point:
    def launches() -> Iterator[Launch]:
        q, k, v, out = (tileprobe.array(np.zeros((count, length, dim), np.float16)) for _ in range(4))
        sums = tileprobe.array(np.zeros((count, length), np.float32))
        kernel: Any = attention.forward_kernel
        for m, n, warps, stages in BLOCKS[machine]:
            yield lambda m=m, n=n, warps=warps, stages=stages: kernel[(triton.cdiv(length, m), count)](
                q, k, v, out, sums, length, 0.125, DIM=dim, CAUSAL=False, BLOCK_M=m, BLOCK_N=n,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip

    flops = 4.0 * count * length**2 * dim / 1e12
    name = f"attention {length}, {count} heads of {dim}"
    return Point(machine, name, published, "TFLOP/s", source, flops, launches, True)


POINTS = (
    product(512, 26.0),
    product(640, 39.4, ISSUE),
    product(768, 59.0, ISSUE),
    product(896, 87.8, ISSUE),
    product(1024, 100.0),
    product(2048, 191.0),
    product(4096, 220.0),
    rows(256, 467.0),
    rows(1024, 999.0),
    heads("sim:a100", 128, 64, 141.0, TUTORIALS),
    heads("sim:h100", 128, 128, 406.8, FORK),
    heads("sim:h100-pcie", 512, 64, 230.0, FLASH),
)


def timed(launch: Launch, threads: int = 0) -> tuple[Timed, float]:
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


def measured(point: Point, clock: str, rates: bool) -> dict[str, Any]:
    with tileprobe.use(point.machine, timed=True, check=False, fast_sums=True, clock=clock):
        from triton.runtime import driver

        hz = driver.active.machine.clock_mhz * 1e6  # pyright: ignore[reportAttributeAccessIssue]
        tried = [(*timed(launch), launch) for launch in point.launches()]
        took, seconds, launch = min(tried, key=lambda one: one[0].cycles)
        speed = point.work / (took.cycles / hz)
        found = {"cycles": took.cycles, "model": speed, "error_percent": 100 * (speed / point.published - 1)}
        if rates:
            seconds = min(seconds, timed(launch)[1])  # the first one may have compiled something
            again, alone = timed(launch, threads=1)
            assert again.cycles == took.cycles, (
                f"{again.cycles} cycles on one thread, {took.cycles} on several"
            )
            found |= {"instructions": took.instructions, "rate": took.instructions / seconds}
            found |= {"rate_one_thread": took.instructions / alone}
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the large sizes, too")
    parser.add_argument("--only", metavar="NAME", default="", help="points with this in their name")
    parser.add_argument("--plot", metavar="FILE", help="draw model against published")
    args = parser.parse_args()
    head = (
        f"{'machine':15}{'kernel':34}{'published':>10}{'nominal':>9}{'error':>8}{'sustained':>11}{'error':>8}"
    )
    print(f"{head}{'M instr/s':>11}{'one thread':>12}")
    results = []
    for point in POINTS:
        if (point.large and not args.full) or args.only not in point.name:
            continue
        found = {clock: measured(point, clock, clock == "nominal") for clock in CLOCKS}
        at = "".join(
            f"{one['model']:{9 + 2 * n}.0f}{one['error_percent']:+7.0f} %"
            for n, one in enumerate(found.values())
        )
        rates = found["nominal"]["rate"] / 1e6, found["nominal"]["rate_one_thread"] / 1e6
        print(
            f"{point.machine:15}{point.name:34}{point.published:10.0f}{at}{rates[0]:11.2f}{rates[1]:12.2f}"
            f"  {point.unit}",
            flush=True,
        )
        results.append(
            {"machine": point.machine, "kernel": point.name, "published": point.published, "unit": point.unit,
             "source": point.source, **found}
        )  # fmt: skip
    means = []
    for clock in CLOCKS:
        errors = [abs(each[clock]["error_percent"]) for each in results]
        means.append({"clock": clock, "percent": float(np.mean(errors)), "largest": max(errors)})
        print(
            f"{clock} clock: mean error {np.mean(errors):.0f} %, largest {max(errors):.0f} %, {len(errors)} points"
        )
    if args.plot:
        draw(results, args.plot)
    save("simgpu_time", {"cases": results, "mean error": means})


def draw(results: list[dict[str, Any]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, plot = pyplot.subplots(figsize=(7, 3.8), layout="constrained")
    names = [f"{each['machine'].removeprefix('sim:')} {each['kernel']}" for each in results]
    for n, clock in enumerate(CLOCKS):
        where = [place + 0.16 * (2 * n - 1) for place in range(len(names))]
        plot.barh(where, [each[clock]["error_percent"] for each in results], 0.3, label=f"{clock} clock")
    plot.axvline(0, color="black", linewidth=0.8)
    plot.axvspan(-15, 15, color="black", alpha=0.06)
    plot.set_yticks(range(len(names)), names, fontsize=8)
    plot.invert_yaxis()
    plot.set_xlabel("model against silicon, % (above 0: the model is faster)")
    plot.legend(fontsize=8)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)
    figure.savefig(path)


if __name__ == "__main__":
    main()
