"""The table of all code: handlers over lanes, then families. Made once a process, compiled the first time ever."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tileprobe.targets.jit import is_kept
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
    remote_stores,
    scalar,
    vectors,
    watch,
)
from tileprobe.targets.simgpu.engine.loop import run

_RUN = "int64(int64, int64)"


@lru_cache(maxsize=1)
def table() -> np.ndarray:
    """By the number of a micro-op, the address of what executes it."""
    with _helper():
        found = np.zeros(numbers.FIRST + len(numbers.NUMBERS), np.int64)
        _, addresses = vectors.handlers()
        found[: len(addresses)] = addresses
        run.compile(_RUN)
        for family in _families():
            family.compile()
    for name, family in numbers.FAMILIES.items():
        found[numbers.NUMBERS[name]] = family.address
    return found


def _families() -> list[Any]:
    """Each family once, in the order in which they are found."""
    return list(dict.fromkeys(numbers.FAMILIES.values()))


def compile_from_the_end() -> None:
    """What a second process does while the first compiles from the beginning: code that either has kept is not
    compiled again, so they meet somewhere in the middle."""
    for family in reversed(_families()):
        family.compile()


@contextmanager
def _helper() -> Iterator[None]:
    """Where code has to be compiled, says so and has a second process, if there is a CPU for it, do its part."""
    if vectors.kept().exists() and is_kept(run) and all(is_kept(family) for family in _families()):
        yield
        return
    print("tileprobe: compiling the simulated GPU's engine, once", file=sys.stderr, flush=True)
    if len(os.sched_getaffinity(0)) < 2:
        yield
        return
    root = str(Path(__file__).parents[4])  # of the package, which may be known to this process alone
    code = f"import sys; sys.path.append({root!r}); from {__name__} import compile_from_the_end as c; c()"
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    helper = None
    with suppress(OSError):
        helper = subprocess.Popen([sys.executable, "-P", "-c", code], **quiet)
    try:
        yield
    finally:
        if helper is not None:
            helper.kill()  # what it has kept is whole; the rest was compiled here
            helper.wait()


def known() -> set[str]:
    """Names of all micro-ops that can be executed."""
    return {*vectors.NUMBERS, *numbers.FAMILIES}


def number(name: str) -> int:
    return vectors.NUMBERS[name] if name in vectors.NUMBERS else numbers.NUMBERS[name]
