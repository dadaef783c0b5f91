"""How near the simulated GPU's time is to published figures of real ones: Triton's tutorial kernels on A100 and H100.

`python -m benchmarks simgpu_time [--full] [--plot FILE] [--rates]` runs products of matrices, row softmax and attention
with time, as they were measured: between two events behind a buffer larger than L2 (`do_bench`), or in a graph of the
same launch. It prints what the model says beside what was published for the silicon, at the nominal clock and at the
one that power leaves it; where the clock was fixed, at that one. Kernels compute as those of the tutorials do; of
several configurations the fastest counts, as the tutorials' autotuner has it. Constants of a machine come from
microbenchmarks (`simgpu_micro.py`), none from here. `--full` takes the large sizes, too (minutes). Each fastest launch
runs once more on one thread: the rate of both is printed, and the cycles must be the same. `--rates` prints instead how
fast some kernels are simulated on one thread, with the sums of tensor cores as the hardware has them and plain, with
checks and without. Others' rates, as published: Accel-Sim 12,500 warp instructions a second (traces of a real GPU),
GPGPU-Sim 4.2 about 10,000 (PTX, no tensor cores of today).

Compilers and chosen configurations of the published runs are not stated by their sources, nor are most clocks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton
from examples.kernels import matmul

import tileprobe
from benchmarks import _simgpu_rates, _tutorial_kernels
from benchmarks._common import save
from tileprobe.targets.simgpu.settings import settings
from tileprobe.targets.simgpu.timing.chip import Timed

CLOCKS = ("nominal", "sustained")
TUTORIALS = (
    "Triton's documentation of 2024, output of tutorials 02, 03 and 06; tutorial 01 sums at 1,684 GB/s: 80 GB"
)
GRAPHS = "Triton's regression tests of January 2024 (test_performance.py): 40 GB at 1350 MHz, in a graph"
LOG33 = "a public log of tutorial 03, Triton 3.3, on an H100 whose curve has the waves of 114 multiprocessors"
FORK = "facebookexperimental/triton pull request 205, tutorial 06 without warp specialisation"
FLASH = "Dao-AILab/flash-attention issue 1777"
TICK_US = 1.024  # what times of the documentation's runs are multiples of
TILES = (
    (128, 256, 64, 8, 3),
    (64, 256, 32, 4, 4),
    (128, 128, 32, 4, 4),
    (128, 64, 32, 4, 4),
    (64, 128, 32, 4, 4),
    (128, 32, 32, 4, 4),
    (64, 32, 32, 2, 5),
    (32, 64, 32, 2, 5),
)  # tile, warps, stages: the tutorial's own list
LARGE = TILES[:4]  # of products from 2048 on
SKINNY = ((16, 128, 64, 4, 4), (32, 64, 64, 2, 5), (64, 64, 64, 4, 4), (64, 32, 64, 4, 5))
BLOCKS = {
    "sim:a100-80gb": ((128, 64, 4, 3), (128, 64, 4, 4), (128, 32, 4, 4)),
    "sim:h100": ((128, 128, 8, 3),),
    "sim:h100-pcie": ((128, 64, 4, 3), (128, 128, 8, 3)),
}  # of queries, of keys, warps, stages

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
    tick_us: float = 0.0  # of the clock that it was measured with
    clock_mhz: int = 0  # where it was fixed: then launches are in a graph, one after another

    @property
    def uncertain(self) -> float:
        """Percent by which it may be off for the clock alone."""
        return 100 * self.tick_us / (1e6 * self.work / self.published)


def product(
    machine: str, shape: int | tuple[int, int, int], published: float, source: str, **more: Any
) -> Point:
    rows, columns, depth_of = shape if isinstance(shape, tuple) else (shape,) * 3
    large = rows * columns * depth_of > 2**31

    def launches() -> Iterator[Launch]:
        shapes = (rows, depth_of), (depth_of, columns), (rows, columns)
        a, b, c = (tileprobe.array(np.ones(each, np.float16)) for each in shapes)
        kernel: Any = matmul.matmul_kernel
        for m, k, depth, warps, stages in SKINNY if min(rows, columns) < 128 else LARGE if large else TILES:
            yield lambda m=m, k=k, depth=depth, warps=warps, stages=stages: kernel[
                (triton.cdiv(rows, m) * triton.cdiv(columns, k),)
            ](
                *matmul._arguments(a, b, c), BLOCK_M=m, BLOCK_N=k, BLOCK_K=depth, GROUP=8, ACTIVATION="",
                num_warps=warps, num_stages=stages,
            )  # fmt: skip

    name = f"product {shape}" if isinstance(shape, int) else f"product {rows} x {depth_of} x {columns}"
    flops = 2.0 * rows * columns * depth_of / 1e12
    return Point(machine, name, published, "TFLOP/s", source, flops, launches, large, **more)


def in_graph(shape: int | tuple[int, int, int], share: float) -> Point:
    """`share`: of what tensor cores have at that clock, as the tests state it."""
    peak = share * 2 * 1024 * 108 * 1350e6 / 1e12
    return product("sim:a100", shape, peak, GRAPHS, clock_mhz=1350)


def rows(columns: int, published: float) -> Point:
    def launches() -> Iterator[Launch]:
        x, out = (tileprobe.array(np.zeros((4096, columns), np.float32)) for _ in range(2))
        kernel, block = _tutorial_kernels.rows_kernel, triton.next_power_of_2(columns)
        made: Any = kernel.warmup(
            out, x, columns, columns, 4096, columns, BLOCK=block, STAGES=4, num_warps=8, grid=(1,)
        )
        made._init_handles()
        held = min(65536 // (made.n_regs * 32 * 8), 167936 // max(made.metadata.shared, 1), 8)
        yield lambda: kernel[(min(108 * held, 4096),)](  # pyright: ignore[reportCallIssue]
            out, x, columns, columns, 4096, columns, BLOCK=block, STAGES=4, num_warps=8
        )

    moved = 2.0 * 4 * 4096 * columns / 1e9
    name = f"softmax 4096 x {columns}"
    return Point("sim:a100-80gb", name, published, "GB/s", TUTORIALS, moved, launches, columns > 1024)


def heads(
    machine: str,
    count: int,
    dim: int,
    published: float,
    source: str,
    length: int = 1024,
    causal: bool = False,
) -> Point:
    def launches() -> Iterator[Launch]:
        q, k, v, out = (tileprobe.array(np.zeros((count, length, dim), np.float16)) for _ in range(4))
        sums = tileprobe.array(np.zeros((count, length), np.float32))
        kernel: Any = _tutorial_kernels.attention_kernel
        for m, n, warps, stages in BLOCKS[machine]:
            yield lambda m=m, n=n, warps=warps, stages=stages: kernel[(length // m, count)](
                q, k, v, out, sums, length, 0.18, DIM=dim, CAUSAL=causal, BLOCK_M=m, BLOCK_N=n,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip

    flops = 4.0 * count * length**2 * dim / 1e12 * (0.5 if causal else 1)
    name = f"attention {length}{' causal' if causal else ''}, {count} x {dim}"
    return Point(machine, name, published, "TFLOP/s", source, flops, launches, True)


A80, PCIE = "sim:a100-80gb", "sim:h100-pcie"
POINTS = (
    *(
        product(A80, n, published, TUTORIALS, tick_us=TICK_US)
        for n, published in (
            (256, 4.096), (384, 12.288), (512, 26.21), (640, 42.67), (768, 68.06), (896, 93.66), (1024, 99.86),
            (1152, 129.8), (1280, 163.8), (1536, 157.3), (2048, 190.7), (3072, 209.7), (4096, 215.8),
        )
    ),
    *(in_graph(n, share) for n, share in ((512, 0.108), (1024, 0.355), (2048, 0.653))),
    *(
        in_graph(shape, share)
        for shape, share in (
            ((16, 4096, 4096), 0.080), ((64, 1024, 1024), 0.045), ((64, 4096, 4096), 0.170), ((1024, 64, 1024), 0.040),
        )
    ),
    *(
        product(PCIE, n, published, LOG33)
        for n, published in ((256, 4.6), (512, 30.2), (1024, 156.4), (1536, 288.5), (2048, 315.6), (4096, 393.3))
    ),
    *(rows(n, gb) for n, gb in ((256, 475.6), (512, 752.3), (1024, 994.0), (2048, 1281.0), (4096, 1395.7))),
    heads(A80, 128, 64, 141.0, TUTORIALS),
    heads(A80, 128, 64, 112.0, TUTORIALS, causal=True),
    heads("sim:h100", 128, 128, 406.8, FORK),
    heads(PCIE, 512, 64, 230.0, FLASH),
)  # fmt: skip


def timed(launch: Launch, point: Point, threads: int = 0) -> tuple[Timed, float]:
    """What a launch took on the chip, and seconds that this took here."""
    from triton.runtime import driver

    active: Any = driver.active
    settings.threads = threads
    found: list[Timed] = []
    run = active.chip.run
    active.chip.run = lambda *args: found.append(run(*args)) or found[-1]
    active.chip.cold() if point.clock_mhz else active.chip.overwrite()  # as `do_bench` does before each run
    if point.clock_mhz:
        launch()  # the one before it in the graph
    start = time.perf_counter()
    launch()
    active.chip.run = run
    return found[-1], time.perf_counter() - start


def speed(point: Point, took: Timed) -> float:
    """Of a launch between two events, or in a row of the same."""
    from triton.runtime import driver

    machine: Any = driver.active.machine  # pyright: ignore[reportAttributeAccessIssue]
    seconds = took.cycles / ((point.clock_mhz or machine.clock_mhz) * 1e6)
    return point.work / (seconds + (0 if point.clock_mhz else machine.timing.events_ns / 1e9))


def measured(point: Point) -> dict[str, Any]:
    """Of the fastest configuration at the nominal clock, at both."""
    found: dict[str, Any] = {}
    for clock in CLOCKS:
        with tileprobe.use(point.machine, timed=True, check=False, fast_sums=True, clock=clock):
            launches = list(point.launches())
            if clock == "nominal":
                tried = [(*timed(launch, point), n) for n, launch in enumerate(launches)]
                took, seconds, best = min(tried, key=lambda one: one[0].cycles)
                if len(tried) == 1:
                    seconds = min(
                        seconds, timed(launches[best], point)[1]
                    )  # the first one may have compiled something
                again, alone = timed(launches[best], point, threads=1)
                assert again.cycles == took.cycles, (
                    f"{again.cycles} cycles on one thread, {took.cycles} on several"
                )
                found |= {
                    "instructions": took.instructions,
                    "rate": took.instructions / seconds,
                    "chosen": best,
                }
                found |= {"rate_one_thread": took.instructions / alone}
            elif not point.clock_mhz:
                took = timed(launches[found["chosen"]], point)[0]
            model = speed(point, took)
        error = 100 * (model / point.published - 1)
        found[clock] = {"cycles": took.cycles, "model": model, "error_percent": error}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the large sizes, too")
    parser.add_argument(
        "--only", metavar="NAME", default="", help="points with this in their machine and name"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw model against published")
    parser.add_argument("--rates", action="store_true", help="how fast kernels are simulated, in four ways")
    args = parser.parse_args()
    if args.rates:
        _simgpu_rates.main()
        return
    chosen = [
        point
        for point in POINTS
        if (args.full or not point.large) and args.only in f"{point.machine} {point.name}"
    ]
    if not chosen:
        parser.error(f"no point has {args.only!r} in its machine and name; some are for --full alone")
    print(
        f"{'machine':15}{'kernel':30}{'published':>10}{'+-':>5}{'nominal':>9}{'error':>8}{'sustained':>11}{'error':>8}"
        f"{'M instr/s':>11}{'one thread':>12}"
    )
    results = []
    for point in chosen:
        found = measured(point)
        at = "".join(
            f"{found[clock]['model']:{9 + 2 * n}.3g}{found[clock]['error_percent']:+7.0f} %"
            for n, clock in enumerate(CLOCKS)
        )
        print(
            f"{point.machine:15}{point.name:30}{point.published:10.4g}{point.uncertain:4.0f}%{at}"
            f"{found['rate'] / 1e6:11.2f}{found['rate_one_thread'] / 1e6:12.2f}  {point.unit}",
            flush=True,
        )
        results.append(
            {"machine": point.machine, "kernel": point.name, "published": point.published, "unit": point.unit,
             "uncertain_percent": point.uncertain, "clock_mhz": point.clock_mhz, "source": point.source, **found}
        )  # fmt: skip
    means = []
    for clock in CLOCKS:
        errors = [abs(each[clock]["error_percent"]) for each in results]
        signed = [each[clock]["error_percent"] for each in results]
        means.append({"clock": clock, "percent": float(np.mean(errors)), "largest": max(errors)})
        print(
            f"{clock} clock: mean error {np.mean(errors):.1f} %, largest {max(errors):.0f} %, {len(errors)} points; "
            f"{np.mean(signed):+.1f} % in the mean, {sum(each > 25 for each in errors)} beyond 25 %"
        )
    if args.plot:
        draw(results, args.plot)
    save("simgpu_time", {"cases": results, "mean error": means})


def draw(results: list[dict[str, Any]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, plot = pyplot.subplots(figsize=(7, 7.5), layout="constrained")
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
