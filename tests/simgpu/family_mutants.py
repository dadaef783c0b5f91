"""Whether the cases of families notice a change in a module of the engine: each is tried on all cases that run the
function that was changed, by Python."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from functools import lru_cache
from typing import Any

import family_cases
import numpy as np
from family_machine import WARPS, Case
from in_a_child import in_a_child
from python_engine import FAMILIES, HELPERS, NAME, Change, changed, changes, families, memory, tree_of

MODULES = (*FAMILIES, *HELPERS)


def wrong(case: Case, functions: dict[str, Any]) -> str:
    """What a family that Python runs does wrong."""
    b, start = case.bench, case.bench.memory.ctypes.data
    warps = {b.at("warps") + n * b.warp_bytes for n in range(WARPS)}
    memory.allow(start, start + len(b.memory), {b.at("uop")}, warps, {b.at("constants")})
    try:
        with np.errstate(all="ignore"):
            return case.bench.run(case, functions[case.op])
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@lru_cache(maxsize=1)
def reached() -> dict[tuple[str, str], list[Case]]:
    """By module and function: the cases that run it, quick ones first. All cases must be right in Python."""
    found: dict[tuple[str, str], list[tuple[float, int, Case]]] = defaultdict(list)
    functions = families.load({})
    for n, (name, case) in enumerate(family_cases.named()):
        called: set[tuple[str, str]] = set()

        def watch(frame: Any, event: str, argument: Any, called: set[tuple[str, str]] = called) -> None:
            module = frame.f_globals.get("__name__", "")
            if module.startswith(f"{NAME}."):
                called.add((module.rpartition(".")[2], frame.f_code.co_name))

        start = time.perf_counter()
        sys.setprofile(watch)
        try:
            said = wrong(case, functions)
        finally:
            sys.setprofile(None)
        if said:
            raise RuntimeError(f"{name}: in Python {said}; no change can be judged")
        taken = round(time.perf_counter() - start, 2)
        for pair in called:
            found[pair].append((taken, hash((n, pair)) & 0xFFFF, case))
    return {pair: [case for *_, case in sorted(cases, key=lambda c: c[:2])] for pair, cases in found.items()}


def noticed(change: Change, tree: Any) -> bool:
    """Whether a case fails, or crashes."""
    cases = reached().get((change.module, change.function), ())

    def fails() -> bool:
        functions = families.load({change.module: changed(tree, change)})
        return any(wrong(case, functions) for case in cases)

    return in_a_child(fails) != 0


def judged(module: str, every: int = 1, first: int = 0) -> tuple[int, list[Change]]:
    """How many changes were tried, and those that no case notices. Every so many is tried, from `first` on."""
    tree, tried = tree_of(module), changes(module)[first::every]
    return len(tried), [change for change in tried if not noticed(change, tree)]


def judged_at(module: str, places: list[int]) -> tuple[int, list[Change]]:
    """The same of chosen changes."""
    tree, found = tree_of(module), changes(module)
    return len(places), [found[n] for n in places if not noticed(found[n], tree)]


def counted(module: str, every: int = 1) -> tuple[int, list[str]]:
    count, alive = judged(module, every)
    return count, [str(change) for change in alive]


def still_alive(module: str, names: list[str]) -> list[str]:
    """Of changes with these names, those that no case notices now."""
    tree, wanted = tree_of(module), set(names)
    return [str(change) for change in changes(module) if str(change) in wanted and not noticed(change, tree)]
