"""The table of all code: handlers over lanes, then families. Made once a process, compiled the first time ever."""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np

from tileprobe.targets.simgpu.engine import (  # noqa: F401  importing them registers their families
    atomics,
    bulk,
    clusters,
    control,
    copies,
    exchange,
    generic,
    groups,
    mbarriers,
    memory,
    numbers,
    reductions,
    scalar,
    vectors,
    watch,
)
from tileprobe.targets.simgpu.engine.loop import run


@lru_cache(maxsize=1)
def table() -> np.ndarray:
    """By the number of a micro-op, the address of what executes it."""
    if not vectors.kept().exists():
        print("tileprobe: compiling the simulated GPU's engine, once", file=sys.stderr, flush=True)
    found = np.zeros(numbers.FIRST + len(numbers.NUMBERS), np.int64)
    _, addresses = vectors.handlers()
    found[: len(addresses)] = addresses
    for family in set(numbers.FAMILIES.values()):
        family.compile()
    for name, family in numbers.FAMILIES.items():
        found[numbers.NUMBERS[name]] = family.address
    run.compile("int64(int64, int64)")
    return found


def known() -> set[str]:
    """Names of all micro-ops that can be executed."""
    return {*vectors.NUMBERS, *numbers.FAMILIES}


def number(name: str) -> int:
    return vectors.NUMBERS[name] if name in vectors.NUMBERS else numbers.NUMBERS[name]
