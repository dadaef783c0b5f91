"""What a core can do at most, measured: multiply-adds by type of element, bytes copied by where they lie.

For `tileprobe doctor --roofs`. Each is measured anew; the quickest of many tries counts, and how much longer the middle
one took is said beside it: on a machine with other work that is much. Types that the core has no instructions for are
not here; kernels compute f16 and bf16 in f32 then.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from tileprobe.ir.amounts import Roof
from tileprobe.targets.cpu.host import host
from tileprobe.targets.cpu.measuring import ROUNDS, Took, intrinsic, timed, vector
from tileprobe.targets.cpu.roofs import copier

CHAINS, LINKS = 16, 8
BEYOND = 4  # times the last cache: what lies in none
LEAST_MEMORY = 64 << 20
TRYING_S, TRIES = 0.1, 5
# Feature of the core, instruction, operations for each 32-bit lane of the sum: products and sums in pairs, in fours.
_DOTS = {
    "bf16": ("avx512bf16", "vdpbf16ps", 4),
    "int8": ("avx512vnni", "vpdpbusd", 8),
}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def roof_table() -> list[Roof]:
    return [*_products(), *_copies()]


def _products() -> list[Roof]:
    found = [_fused(kind, f"llvm.fma.v{vector(kind).count}{kind}") for kind in ("f64", "f32")]
    if host().has("avx512fp16"):
        found.append(_fused("f16", f"llvm.fma.v{vector('f16').count}f16"))
    for kind, (feature, name, operations) in _DOTS.items():
        if host().has(feature) and host().vector_bytes == 64:
            found.append(_dotted(kind, name, operations))
    return found


def _fused(kind: str, name: str) -> Roof:
    held = vector(kind)

    def body(b: ir.IRBuilder, values: list[Any], _: Any) -> list[Any]:
        for _link in range(LINKS):
            values = [
                *(intrinsic(b, name, held, [x, values[-1], values[-1]]) for x in values[:-1]),
                values[-1],
            ]
        return values

    took = timed([held] * (CHAINS + 1), body, rounds=ROUNDS // LINKS)
    return _rate(f"{kind} multiply-add", 2.0 * held.count * CHAINS * LINKS, took, "operations")


def _dotted(kind: str, name: str, operations: int) -> Roof:
    held = vector("f32")
    shape = ir.FunctionType(held, [held, held, held])

    def body(b: ir.IRBuilder, values: list[Any], _: Any) -> list[Any]:
        for _link in range(LINKS):
            sums = [b.asm(shape, f"{name} $2, $1, $0", "=v,v,v,0", [values[-1], values[-1], x], side_effect=False)
                    for x in values[:-1]]  # fmt: skip
            values = [*sums, values[-1]]
        return values

    took = timed([held] * (CHAINS + 1), body, rounds=ROUNDS // LINKS)
    return _rate(f"{kind} multiply-add", float(operations) * held.count * CHAINS * LINKS, took, "operations")


def _rate(name: str, amount: float, took: Took, unit: str) -> Roof:
    return Roof(name, amount / took.best_ns * 1e9, took.spread, unit)


def caches() -> list[tuple[str, int]]:
    """Name and bytes of each cache that holds data, the nearest first, as the system says; else those of any core."""
    found: list[tuple[str, int]] = []
    for place in sorted(_CACHES.glob("index*")):
        try:
            kind, level, size = ((place / name).read_text().strip() for name in ("type", "level", "size"))
            if kind in ("Data", "Unified") and size.endswith("K"):
                found.append((f"L{level}", int(size[:-1]) << 10))
        except (OSError, ValueError):
            continue
    return found or [("L1", 32 << 10)]


def _copies() -> list[Roof]:
    """A copy that reads and writes three quarters of a cache, half each, and what the one before does not hold."""
    known = caches()
    sizes = [(f"copy in {name}", size * 3 // 4) for name, size in known]
    sizes.append(("copy in memory", max(LEAST_MEMORY, BEYOND * known[-1][1])))
    return [_copied(name, size) for name, size in sizes]


def _copied(name: str, size: int) -> Roof:
    half = size // 2 // 4096 * 4096
    held = np.ones(2 * half + 64, np.uint8)
    first = held.ctypes.data + -held.ctypes.data % 64
    times, run, tries = max(1, (4 << 20) // half), copier(), list[float]()
    end = time.perf_counter() + TRYING_S
    while time.perf_counter() < end or len(tries) < TRIES:
        start = time.perf_counter_ns()
        run(first, first + half, half, times)
        tries.append(float(time.perf_counter_ns() - start))
    return _rate(name, 2.0 * half * times, Took(min(tries), float(np.median(tries))), "bytes")
