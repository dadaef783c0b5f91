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
from tileprobe.targets.simgpu.engine.timed import help_timed, run_timed

_RUN, _HELP = "int64(int64, int64)", "int64(int64)"
_TIMED = ((run_timed, _RUN), (help_timed, _HELP))


@lru_cache(maxsize=2)
def table(timed: bool = False) -> np.ndarray:
    """By the number of a micro-op, the address of what executes it. `timed`: the engine that takes time is compiled,
    too, at the same time where there is a second CPU."""
    with _helper(timed) as helper:
        found = np.zeros(numbers.FIRST + len(numbers.NUMBERS), np.int64)
        _, addresses = vectors.handlers()
        found[: len(addresses)] = addresses
        run.compile(_RUN)
        for family in _families():
            family.compile()
        if timed:
            if helper is not None:
                helper.wait()  # it began with these
            _compile_timed()
    for name, family in numbers.FAMILIES.items():
        found[numbers.NUMBERS[name]] = family.address
    return found


def _families() -> list[Any]:
    """Each family once, in the order in which they are found."""
    return list(dict.fromkeys(numbers.FAMILIES.values()))


def _compile_timed() -> None:
    for function, signature in _TIMED:
        function.compile(signature)


def compile_from_the_end(timed: bool = False) -> None:
    """What a second process does while the first compiles from the beginning: code that either has kept is not
    compiled again, so they meet somewhere in the middle."""
    if timed:
        _compile_timed()
    for family in reversed(_families()):
        family.compile()


@contextmanager
def _helper(timed: bool = False) -> Iterator[Any]:
    """Where code has to be compiled, says so and has a second process, if there is a CPU for it, do its part."""
    needed = [run, *_families(), *(function for function, _ in _TIMED if timed)]
    if vectors.kept().exists() and all(is_kept(function) for function in needed):
        yield None
        return
    print("tileprobe: compiling the simulated GPU's engine, once", file=sys.stderr, flush=True)
    if len(os.sched_getaffinity(0)) < 2:
        yield None
        return
    root = str(Path(__file__).parents[4])  # of the package, which may be known to this process alone
    code = (
        f"import sys; sys.path.append({root!r}); from {__name__} import compile_from_the_end as c; c({timed})"
    )
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    helper = None
    with suppress(OSError):
        helper = subprocess.Popen([sys.executable, "-P", "-c", code], **quiet)
    try:
        yield helper
    finally:
        if helper is not None:
            helper.kill()  # what it has kept is whole; the rest was compiled here
            helper.wait()


def known() -> set[str]:
    """Names of all micro-ops that can be executed."""
    return {*vectors.NUMBERS, *numbers.FAMILIES}


def number(name: str) -> int:
    return vectors.NUMBERS[name] if name in vectors.NUMBERS else numbers.NUMBERS[name]
