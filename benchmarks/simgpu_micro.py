"""Microbenchmarks of GPUs, as published and on the simulated ones: where the numbers of a machine come from.

`python -m benchmarks.simgpu_micro [--only NAME]` runs small kernels that measure one thing each (`_micro_ptx.py`, PTX
that Triton's ptxas assembles) and prints what was published for the silicon beside what the model says. A machine's
numbers (`machines/*.toml`) come from such figures alone: where a line is off the model is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton
import triton.language as tl

import tileprobe
from benchmarks import _micro_ptx
from benchmarks._common import save
from tileprobe.targets.simgpu.machine import machine as machine_of
from tileprobe.targets.simgpu.timing.chip import Timed

GB = "gpu-benches (te42kyfo), logs of the cards"
AB = "arXiv:2208.11174"
FV = "flash-vla, constants measured on an H100 SXM"
LR = "arXiv:2501.12084 and its logs"
TR = "Triton's regression tests of 2024 (test_performance.py), in a graph, at 1350 MHz"
T1 = "Triton's documentation, tutorial 01 on an A100 of 80 GB, mean of ten of 4096 to 65536 elements"
T2 = "the same on an H200, in a public copy of the tutorial"
AS = "Accel-Sim, tested configurations"
FG = "FlashGPU-Sim, configurations"
AW = "NVIDIA's whitepapers"
WIDTH = 8  # bytes of an element of a stream


@dataclass(frozen=True)
class Point:
    machine: str
    name: str
    unit: str
    published: float
    source: str
    simulated: Callable[[str], float]


def launched(machine: str, name: str, grid: int, block: int, *args: Any) -> Timed:
    """What a launch took, with what the launches before it left in the caches."""
    from triton.runtime import driver

    from tileprobe.targets.simgpu.foreign import ForeignLauncher
    from tileprobe.targets.simgpu.program import decode

    here: Any = driver.active
    program = decode(_micro_ptx.cubin(here.machine.arch), name)
    found: list[Timed] = []
    run = here.chip.run
    here.chip.run = lambda *given: found.append(run(*given)) or found[-1]
    ForeignLauncher(program, here.machine, (block, 1, 1), 0).run(program, (grid, 1, 1), args)
    here.chip.run = run
    return found[-1]


def chip() -> Any:
    from triton.runtime import driver

    active: Any = driver.active
    return active.chip


def round_of(name: str, steps: int, block: int = 32, grid: int = 1, *more: Any) -> Callable[[str], float]:
    """Cycles of a step: the difference of two launches, which have all else in common."""

    def measure(machine: str) -> float:
        out = np.zeros(16, np.uint32)
        few, many = (launched(machine, name, grid, block, n, *more, out).cycles for n in (8, 40))
        return (many - few) / (32 * steps)

    return measure


def latency(kilobytes: int, cold: bool = False) -> Callable[[str], float]:
    """A chase through a buffer in random order, 64 bytes apart, as gpu-benches has it."""

    def measure(machine: str) -> float:
        count = kilobytes * 1024 // 64
        order = np.random.default_rng(0).permutation(count)
        held = np.zeros(8 * count + 64, np.int64)
        words = held[-(held.ctypes.data // 8) % 16 :][: 8 * count]  # from a line's beginning
        following = np.empty(count, np.int64)
        following[order] = np.roll(order, -1)
        words[::8] = words.ctypes.data + 64 * following
        steps, first = min(count, 20000) // 16, 1 if cold else count // 16 + 1
        out = np.zeros(2, np.int64)
        took = []
        for n in (first, first + steps):
            chip().cold()
            took.append(launched(machine, "chase", 1, 32, words, n, out).cycles)
        few, many = took
        return (many - few) / (16 * steps)

    return measure


def bytes_cycle(name: str, kilobytes: int, apart: int, rounds: int) -> Callable[[str], float]:
    """Bytes a cycle and multiprocessor that a program of 1,024 threads on each reads."""

    def measure(machine: str) -> float:
        count = machine_of(machine).multiprocessors
        held = np.zeros(2 * kilobytes * 1024 + apart * count + 4096, np.uint8)
        out = np.zeros(16, np.uint32)
        _, few, many = (
            launched(machine, name, count, 1024, held, kilobytes * 1024, apart, n, out).cycles
            for n in (2, 8, 8 + rounds)
        )
        return kilobytes * 1024 * rounds / (many - few)

    return measure


def stream(name: str, arrays: int) -> Callable[[str], float]:
    """GB/s of long arrays: the difference between those of 64 and of 128 MB. L2 is as they would leave it."""

    def measure(machine: str) -> float:
        took, count = [], 1 << 24
        held = [np.zeros(count) for _ in range(3)]
        for n in (count // 2, count):
            chip().cold() if name == "read" else chip().overwrite()
            took.append(launched(machine, name, n // 1024, 1024, *held, n).cycles)
        seconds = (took[1] - took[0]) / (machine_of(machine).clock_mhz * 1e6)
        return arrays * WIDTH * count / 2 / seconds / 1e9

    return measure


def repeated(name: str, count: int, block: int) -> Callable[[str], float]:
    """Microseconds of a launch in a row of the same, which finds its data in L2."""

    def measure(machine: str) -> float:
        held = [np.zeros(count) for _ in range(3)]
        cycles = [launched(machine, name, -(-count // block), block, *held, count).cycles for _ in range(3)][
            -1
        ]
        return cycles / machine_of(machine).clock_mhz

    return measure


@triton.jit
def _add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


def sums(count: int, clock_mhz: int = 0) -> Callable[[str], float]:
    """Microseconds of Triton's sum of two vectors: in a row of the same at some clock, or between two events and
    behind other data, as `do_bench` has it."""

    def measure(machine: str) -> float:
        kernel: Any = _add
        arrays = [tileprobe.array(np.zeros(count, np.float32)) for _ in range(3)]
        with tileprobe.sim.measure(f"sim:{machine}", cold=False, check=False) as found:
            for _ in range(1 if not clock_mhz else 3):
                if not clock_mhz:
                    chip().overwrite()
                kernel[(triton.cdiv(count, 1024),)](*arrays, count, BLOCK=1024)
        around = 0 if clock_mhz else machine_of(machine).timing.events_ns / 1000
        return found[-1].cycles / (clock_mhz or machine_of(machine).clock_mhz) + around

    return measure


def tensor_rate(machine: str) -> float:
    """Products a cycle and multiprocessor."""
    count = machine_of(machine).multiprocessors
    return 16 * 8 * 16 * 16 / round_of("product_rate", _micro_ptx.UNROLLED, 512, count)(machine)


CHAIN = _micro_ptx.UNROLLED
A40, A80, HS, HP = "sim:a100", "sim:a100-80gb", "sim:h100", "sim:h100-pcie"
POINTS = (
    *(
        Point(machine, what, "cycles", published, source, measure)
        for machine, what, published, source, measure in (
            (A80, "dependent FFMA", 4, AB, round_of("fma_chain", CHAIN)),
            (A80, "dependent HMMA.16816", 25, AB, round_of("product_chain", CHAIN)),
            (HS, "dependent HMMA.16816", 25, FV, round_of("product_chain", CHAIN)),
            (A80, "dependent MUFU.EX2", 23, AS, round_of("ex2_chain", CHAIN)),
            (HS, "dependent MUFU.EX2", 19, FG, round_of("ex2_chain", CHAIN)),
            (A80, "barrier of a program, one warp", 15, AS, round_of("barrier_chain", CHAIN)),
            (HS, "barrier of a program, one warp", 15, FG, round_of("barrier_chain", CHAIN)),
            (A80, "dependent load, shared", 23, AB, round_of("shared_chain", CHAIN)),
            (HS, "dependent load, shared", 29, LR, round_of("shared_chain", CHAIN)),
            (A80, "dependent load, L1, 64 KB", 36.3, GB, latency(64)),
            (HP, "dependent load, L1, 64 KB", 34.2, GB, latency(64)),
            (A80, "dependent load, L2, 2 MB", 211, GB, latency(2048)),
            (HP, "dependent load, L2, 2 MB", 265.4, GB, latency(2048)),
            (A80, "dependent load, DRAM", 570, GB, latency(65536, True)),
            (HP, "dependent load, DRAM", 650, GB, latency(65536, True)),
        )
    ),
    *(
        Point(machine, what, "bytes/cycle", published, source, measure)
        for machine, what, published, source, measure in (
            (A80, "reads of L1, a multiprocessor", 126, GB, bytes_cycle("reads_l1", 64, 0, 16)),
            (HP, "reads of L1, a multiprocessor", 126, GB, bytes_cycle("reads_l1", 64, 0, 8)),
            (A80, "reads of L2, a multiprocessor of all", 35.6, GB, bytes_cycle("reads_l2", 64, 65536, 4)),
            (HP, "reads of L2, a multiprocessor of all", 35.2, GB, bytes_cycle("reads_l2", 64, 65536, 4)),
        )
    ),
    *(
        Point(machine, f"DRAM, {name} of doubles", "GB/s", published, GB, stream(name, arrays))
        for machine, name, arrays, published in (
            (A80, "read", 1, 1880), (A80, "init", 1, 1880), (A80, "scale", 2, 1735), (A80, "triad", 3, 1740),
            (A40, "read", 1, 1470), (A40, "init", 1, 1502), (A40, "scale", 2, 1377), (A40, "triad", 3, 1363),
            (HP, "read", 1, 1989), (HP, "init", 1, 2016), (HP, "scale", 2, 1704), (HP, "triad", 3, 1832),
        )
    ),
    Point(A80, "HMMA.16816, products a multiprocessor", "FMA/cycle", 1024, AW, tensor_rate),
    Point(HS, "HMMA.16816, products a multiprocessor", "FMA/cycle", 0.63 * 2048, FV, tensor_rate),
    *(
        Point(HS, f"wgmma m64n{n}k16, {flight} in flight", "cycles", published, FV,
              round_of(f"group_{n}_{flight}", 64, 128))
        for (n, flight), published in zip(_micro_ptx.GROUPS, (18.9, 20.7, 24.7, 79, 32.8, 48.7, 65.0, 97.1, 129.3))
    ),
    *(
        Point(machine, f"launch of scale, {2 * WIDTH * count / 1e6:.2f} MB, in a graph", "us", published, GB,
              repeated("scale", count, 1024))
        for machine, count, published in (
            (A80, 4096, 65.536 / 45), (A80, 65320, 1045.1 / 666), (A80, 164478, 2631.6 / 1432),
            (A80, 1042953, 16687 / 2908),
            (HS, 4096, 65.536 / 50), (HS, 67031, 1072.5 / 765), (HS, 271378, 4342 / 2277), (HS, 1098763, 17580 / 4217),
        )
    ),
    *(
        Point(A40, f"sum of vectors of {count}, in a graph", "us", 12 * count / (share * 1555e3), TR,
              sums(count, 1350))
        for count, share in ((1 << 14, 0.060), (1 << 16, 0.224), (1 << 18, 0.691), (1 << 20, 1.453), (1 << 24, 0.862))
    ),
    Point(A80, "sum of vectors of 4096, between two events", "us", 5.94, T1, sums(4096)),
    Point(HS, "sum of vectors of 4096, between two events", "us", 5.54, T2, sums(4096)),
    *(
        Point(A80, f"sum of vectors of {count}, between two events", "us", 12 * count / gb / 1e3, T1, sums(count))
        for count, gb in ((1 << 19, 614.4), (1 << 20, 819.2), (1 << 21, 1024.0), (1 << 22, 1228.8), (1 << 24, 1560.4))
    ),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="NAME", default="", help="lines with this in their name or machine")
    args = parser.parse_args()
    if not any(args.only in f"{point.machine} {point.name}" for point in POINTS):
        parser.error(f"no line has {args.only!r} in its name or machine")
    print(f"{'machine':15}{'what':48}{'unit':>12}{'published':>11}{'simulated':>11}{'error':>8}  source")
    results = []
    for point in POINTS:
        if args.only not in f"{point.machine} {point.name}":
            continue
        with tileprobe.use(point.machine, timed=True, check=False):
            chip().cold()
            found = point.simulated(point.machine.removeprefix("sim:"))
        error = 100 * (found / point.published - 1)
        print(
            f"{point.machine:15}{point.name:48}{point.unit:>12}{point.published:11.5g}{found:11.5g}{error:+6.0f} %"
            f"  {point.source}",
            flush=True,
        )
        results.append(
            {"machine": point.machine, "what": point.name, "unit": point.unit, "published": point.published,
             "simulated": found, "error_percent": error, "source": point.source}
        )  # fmt: skip
    errors = [abs(each["error_percent"]) for each in results]
    print(f"mean error {np.mean(errors):.1f} %, largest {max(errors):.0f} %, {len(errors)} lines")
    save("simgpu_micro", {"lines": results})


if __name__ == "__main__":
    main()
