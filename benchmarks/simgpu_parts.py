"""How far off a launch is of which a part is timed, and how much sooner it is done: `--waves` and `--sms` against all.

`python -m benchmarks simgpu_parts [--quick]` runs a product of matrices, attention, row softmax and an addition on
`sim:a100` and `sim:h100` with all programs timed, then with one to three waves of them, and with an eighth, a quarter
and a half of the multiprocessors, from empty caches each. The cycles must be those of all; the error is printed,
with the time that it took here. All other programs are executed for their values, which is part of that time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton
import triton.language as tl
from examples.kernels import attention, matmul, softmax

import tileprobe
from benchmarks._common import save
from tileprobe.targets.simgpu.launched import Launched, observing

Launch = Callable[[], Any]


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], Launch]


def product(n: int) -> Launch:
    a, b, c = (tileprobe.array(np.ones((n, n), np.float16)) for _ in range(3))
    kernel: Any = matmul.matmul_kernel
    return lambda: kernel[(triton.cdiv(n, 128) * triton.cdiv(n, 64),)](
        *matmul._arguments(a, b, c), BLOCK_M=128, BLOCK_N=64, BLOCK_K=32, GROUP=8, ACTIVATION="", num_warps=4,
        num_stages=4,
    )  # fmt: skip


def heads(count: int, length: int) -> Launch:
    q, k, v, out = (tileprobe.array(np.zeros((count, length, 64), np.float16)) for _ in range(4))
    sums = tileprobe.array(np.zeros((count, length), np.float32))
    kernel: Any = attention.forward_kernel
    return lambda: kernel[(triton.cdiv(length, 128), count)](
        q,
        k,
        v,
        out,
        sums,
        length,
        0.125,
        DIM=64,
        CAUSAL=False,
        BLOCK_M=128,
        BLOCK_N=64,
        num_warps=4,
        num_stages=3,
    )


def rows(count: int) -> Launch:
    x, out = (tileprobe.array(np.zeros((count, 1024), np.float32)) for _ in range(2))
    return lambda: softmax.softmax(x, out, programs=count)


def sums(n: int) -> Launch:
    x, y, out = (tileprobe.array(np.zeros(n, np.float32)) for _ in range(3))
    kernel: Any = add
    return lambda: kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)


def cases(quick: bool) -> list[Case]:
    size = 1 if quick else 2
    return [
        Case(f"product {2048 * size}", lambda: product(2048 * size)),
        Case(f"attention, {48 * size} heads of 1024", lambda: heads(48 * size, 1024)),
        Case(f"softmax {4096 * size} x 1024", lambda: rows(4096 * size)),
        Case(f"addition of {4 * size} M", lambda: sums(4 * size << 20)),
    ]


def run(machine: str, launch: Launch, **part: int) -> tuple[Launched, float]:
    """What the launch took there, and the seconds here."""
    found: list[Launched] = []
    with (
        tileprobe.use(machine, timed=True, cold=True, check=False, fast_sums=True, **part),
        observing(found.append),
    ):
        begun = time.perf_counter()
        launch()
        took = time.perf_counter() - begun
    return found[-1], took


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--machine", action="append", choices=("sim:a100", "sim:h100"))
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    args = parser.parse_args()
    made: list[dict[str, Any]] = []
    for machine in args.machine or ("sim:a100", "sim:h100"):
        multiprocessors = 108 if machine == "sim:a100" else 132
        parts = [{"waves": n} for n in (1, 2, 3)]
        parts += [{"sms": round(multiprocessors * share)} for share in (1 / 8, 1 / 4, 1 / 2)]
        parts.append({"sms": multiprocessors // 2, "waves": 2})
        print(f"\n{machine:44}{'cycles':>12}" + "".join(f"{_called(part):>20}" for part in parts))
        for case in cases(args.quick):
            made += _row(machine, case, parts)
    print("\nerror of the cycles, and how many times sooner it was done here")
    for name in dict.fromkeys(each["part"] for each in made):
        mine = [each for each in made if each["part"] == name]
        errors = [abs(each["error_percent"]) for each in mine]
        sooner = np.exp(np.mean([np.log(each["sooner"]) for each in mine]))
        print(
            f"  {name:18} mean error {np.mean(errors):5.1f} %, largest {max(errors):5.1f} %, {sooner:5.2f} times sooner"
        )
    save("simgpu_parts", {"parts": made})


def _called(part: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in part.items())


def _row(machine: str, case: Case, parts: list[dict[str, int]]) -> list[dict[str, Any]]:
    launch = case.make()
    run(machine, launch, waves=1)  # compiles
    whole, seconds = run(machine, launch)
    assert whole.took is not None and whole.took.part is not None
    waves = whole.took.part.programs / whole.took.part.all_multiprocessors / whole.took.part.slots
    cells, found = [f"{case.name + f' ({waves:.1f} waves)':44}{whole.took.cycles:>12,}"], []
    for n, part in enumerate(parts):
        some, sooner = run(machine, launch, **part)
        assert some.took is not None
        error = 100.0 * (some.took.cycles / whole.took.cycles - 1.0)
        cells.append(f"{f'{error:+.1f} %, {seconds / sooner:.1f}x':>20}")
        shares = ("1/8 of SMs", "1/4 of SMs", "1/2 of SMs", "1/2, 2 waves")
        found.append({
            "machine": machine, "kernel": case.name, "part": _called(part) if n < 3 else shares[n - 3], **part,
            "cycles": some.took.cycles, "all_cycles": whole.took.cycles, "error_percent": error,
            "sooner": seconds / sooner,
        })  # fmt: skip
    print("".join(cells), flush=True)
    return found


if __name__ == "__main__":
    main()
