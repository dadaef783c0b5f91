"""Whether the kernels of `family_kernels` notice a change in a module of the engine's families."""

from __future__ import annotations

from typing import Any

import family_kernels
import numpy as np
from family_kernels import CASES
from python_engine import FAMILIES, mutants, running, tree_of

import tileprobe

# Modules that others are made of: all families run in Python then
HELPERS = ("addresses", "barriers", "fields")
MODULES = (*FAMILIES, *HELPERS)


def _left(name: str, machine: str) -> list[np.ndarray]:
    family_kernels.RANDOM = np.random.default_rng(7)
    with tileprobe.use(machine, threads=1, check=False, step_limit=10_000_000):
        return family_kernels.run(name)[0]


def _cases(module: str) -> list[tuple[str, str]]:
    return [
        (name, m) for name, (_, modules, machines) in CASES.items() if module in modules for m in machines
    ]


def _noticed(module: str, tree: Any, right: dict[tuple[str, str], list[np.ndarray]]) -> bool:
    only = FAMILIES if module in HELPERS else (module,)
    for (name, machine), wanted in right.items():
        try:
            with running({module: tree}, only) as wrong:
                found = _left(name, machine)
        except Exception:
            return True
        if wrong or not all(
            np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(found, wanted)
        ):
            return True
    return False


def judged(module: str, most: int | None = None) -> tuple[int, list[str]]:
    """How many changes were tried, and those that no kernel notices."""
    right = {pair: _left(*pair) for pair in _cases(module)}
    if _noticed(module, tree_of(module), right):
        raise RuntimeError(
            f"{module}.py gives other answers in Python than compiled: no change of it can be judged"
        )
    tried = mutants(module, most)
    return len(tried), [what for what, tree in tried if not _noticed(module, tree, right)]
