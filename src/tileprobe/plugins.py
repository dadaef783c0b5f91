"""Targets, found by their entry points (group `tileprobe.targets`).

A package adds a target, with all that belongs to it, without a change here. Targets are loaded when they are first
asked for; one that cannot be loaded is left out and remembered in `broken`, so that it takes nothing else with it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

GROUP = "tileprobe.targets"
broken: dict[str, Exception] = {}  # entry points that could not be loaded, and why
_added: dict[str, Any] = {}  # targets that were named by a file


@lru_cache(maxsize=1)
def _installed() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            target = point.load()()
        except Exception as error:
            broken[point.name] = error
            continue
        found.setdefault(target.name, target)
    return found


def targets() -> dict[str, Any]:
    """Every target by its name; what it can do is `tileprobe.targets.base.Target`."""
    return {**_installed(), **_added}


def add_target(target: Any) -> None:
    """Makes a target known that no entry point names."""
    _added[target.name] = target
