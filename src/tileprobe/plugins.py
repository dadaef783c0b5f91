"""What others bring: targets, found by their entry points (group `tileprobe.targets`), and classes in a user's file.

A package adds a target, with all that belongs to it, without a change here. Targets are loaded when they are first
asked for; one that cannot be loaded is left out and remembered in `broken`, so that it takes nothing else with it.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError

GROUP = "tileprobe.targets"
broken: dict[str, Exception] = {}  # entry points that could not be loaded, and why
_added: dict[str, Any] = {}  # targets that were named by a file


@lru_cache(maxsize=1)
def installed() -> dict[str, Any]:
    """The targets of installed packages by their names."""
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
    return {**installed(), **_added}


def add_target(target: Any) -> None:
    """Makes a target known that no entry point names."""
    _added[target.name] = target


def class_in(file: str, name: str, what: str) -> type:
    """The class `name` of a Python file, which holds a `what` ("target", "tool") of the user's."""
    path = Path(file)
    if not path.is_file():
        raise TileProbeError(f"there is no file {file} to load a {what} from")
    spec = importlib.util.spec_from_file_location(f"tileprobe_{what}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass whose annotations are text looks its module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TileProbeError(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error
    kind = getattr(module, name, None)
    if not isinstance(kind, type):
        raise TileProbeError(f"{file} has no class {name}")
    return kind
