"""How fast kernels are simulated with time on one thread: sums of tensor cores plain or as the hardware has them, with
the checks of memory and without. Kernels whose products are of warp groups are bound by them: FLOP/s beside it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import triton
from examples.kernels import matmul

import tileprobe
from benchmarks import _tutorial_kernels
from benchmarks._common import save

WAYS = (("fast", False), ("fast", True), ("hardware", False), ("hardware", True))
KERNELS = (
    ("sim:a100", "product 1024", (128, 128, 32, 4, 4)),
    ("sim:a100", "product 2048", (128, 128, 32, 4, 4)),
    ("sim:a100", "attention 1024, 32 x 64", (128, 64, 4, 3)),
    ("sim:h100", "product 1024", (128, 128, 64, 4, 3)),
    ("sim:h100", "product 2048", (128, 256, 64, 8, 3)),
    ("sim:h100", "attention 1024, 32 x 128", (128, 128, 8, 3)),
)


def main() -> None:
    ways = "".join(f"{how + (', checked' if check else ''):>19}" for how, check in WAYS)
    print(f"{'machine':11}{'kernel':27}{ways}")
    results = []
    for machine, name, config in KERNELS:
        run, flops = (_product if name.startswith("product") else _attention)(name, config)
        rates = [_rate(machine, run, how == "fast", check) for how, check in WAYS]
        shown = "".join(
            f"{f'{rate / 1e6:.2f} M, {flops / seconds / 1e9:.0f} GF':>19}" for rate, seconds in rates
        )
        print(f"{machine:11}{name:27}{shown}", flush=True)
        results.append(
            {"machine": machine, "kernel": name, "rates": [
                {"numerics": how, "check": check, "instructions_per_s": rate, "flops_per_s": flops / seconds}
                for (how, check), (rate, seconds) in zip(WAYS, rates)
            ]}
        )  # fmt: skip
    save("simgpu_rates", {"kernels": results})


def _rate(machine: str, run: Any, fast: bool, check: bool) -> tuple[float, float]:
    """Instructions a second, and the seconds that the second launch took."""
    with tileprobe.sim.measure(machine, threads=1, fast_sums=fast, check=check) as found:
        run()
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
    return found[-1].instructions / seconds, seconds


def _product(name: str, config: tuple[int, ...]) -> tuple[Any, float]:
    n = int(name.split()[1])
    rng = np.random.default_rng(0)
    a, b, c = (tileprobe.array(rng.standard_normal((n, n)).astype(np.float16)) for _ in range(3))
    m, k, depth, warps, stages = config
    kernel: Any = matmul.matmul_kernel
    return lambda: kernel[(triton.cdiv(n, m) * triton.cdiv(n, k),)](
        *matmul._arguments(a, b, c), BLOCK_M=m, BLOCK_N=k, BLOCK_K=depth, GROUP=8, ACTIVATION="",
        num_warps=warps, num_stages=stages,
    ), 2.0 * n**3  # fmt: skip


def _attention(name: str, config: tuple[int, ...]) -> tuple[Any, float]:
    count, dim = (int(word) for word in name.split(", ")[1].split(" x "))
    rng, length = np.random.default_rng(0), 1024
    q, k, v, out = (
        tileprobe.array(rng.standard_normal((count, length, dim)).astype(np.float16)) for _ in range(4)
    )
    sums = tileprobe.array(np.zeros((count, length), np.float32))
    m, n, warps, stages = config
    kernel: Any = _tutorial_kernels.attention_kernel
    return lambda: kernel[(length // m, count)](
        q, k, v, out, sums, length, 0.18, DIM=dim, CAUSAL=False, BLOCK_M=m, BLOCK_N=n,
        num_warps=warps, num_stages=stages,
    ), 4.0 * count * length**2 * dim  # fmt: skip
